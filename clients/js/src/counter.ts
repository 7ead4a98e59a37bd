/**
 * A number in a file of Node, which only grows.
 *
 * The file has two places, of one block of a disk each. A new number goes to the place that does not hold the newest
 * one, so that a write that is cut off leaves the number before. The file itself is on disk before the first number
 * counts; a new number is not waited for. A loss of power may leave the number before: it is never too large.
 *
 * bytes   content of a place
 * 8       the number, little-endian
 * 32      SHA-256 of a label and the number
 */

import { equal, putInteger } from "./bytes.js";
import { DeviceError } from "./errors.js";
import { overwrite, readFile, writeFile } from "./files.js";
import { sha256 } from "./sha256.js";

const BLOCK = 4096;
const SIZE = 40;
const LABEL = new TextEncoder().encode("ldpbeam counter\0");

/** Its users take turns. */
export class Counter {
  readonly path: string;
  /** The place of the number that was read. */
  #newest = 1;

  constructor(path: string) {
    this.path = path;
  }

  /**
   * The number; null where there is no file; an error where neither place holds a number.
   *
   * @throws DeviceError E-DISK-LINK: the path is no file's.
   */
  read(): number | null | DeviceError {
    const content = readFile(this.path);
    if (!content) return null;
    const [first, second] = [0, 1].map((place) => numberAt(content, place));
    if (first === null && second === null) return damaged(this.path);
    this.#newest = (second ?? -1) >= (first ?? -1) ? 1 : 0;
    return Math.max(first ?? 0, second ?? 0);
  }

  /** Puts a larger number in, after each `read` one at most; it outlasts a kill, and the file a loss of power. */
  write(number: number): void {
    const place = 1 - this.#newest;
    if (!overwrite(this.path, place * BLOCK, packed(number))) {
      const content = new Uint8Array(2 * BLOCK);
      content.set(packed(number), place * BLOCK);
      writeFile(this.path, content);
    }
  }
}

function packed(number: number): Uint8Array {
  const labelled = new Uint8Array(LABEL.length + 8);
  labelled.set(LABEL);
  putInteger(labelled, LABEL.length, 8, number);
  const content = new Uint8Array(SIZE);
  content.set(labelled.subarray(LABEL.length));
  content.set(sha256(labelled), 8);
  return content;
}

function numberAt(content: Buffer, place: number): number | null {
  const found = content.subarray(place * BLOCK, place * BLOCK + SIZE);
  if (found.length < SIZE) return null;
  const number = Number(found.readBigUInt64LE());
  return equal(packed(number), found) ? number : null;
}

function damaged(path: string): DeviceError {
  return new DeviceError(
    "E-DEVICE-SENTINEL-DAMAGED",
    `the sentinel ${path} is damaged, so that nothing tells an older copy of the state from the newest`,
    "Remove it, unless the state beside it is gone or comes from a copy.",
  );
}
