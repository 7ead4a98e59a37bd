/** What a device says in clear with every report, such as its version (docs/wire.md, "Slices"). */

import { putInteger } from "./bytes.js";
import type { Definition, Dimension } from "./definition.js";
import { DeviceError } from "./errors.js";
import { sha256 } from "./sha256.js";

/** A label for each dimension of the collection's `slices`. */
export type Slice = Readonly<Record<string, string>>;

/** The label that stands for all labels which an open dimension does not list. */
const OTHER = "other";
const LABEL = "ldpbeam slice 1\0";

/**
 * What reports of a slice carry as their digest; the collection's own where it has no slices.
 *
 * @throws DeviceError a dimension is missing or unknown, or a closed one does not list the label.
 */
export function digestOf({ slices, digest, fullDigest }: Definition, slice: Slice | null | undefined): Uint8Array {
  const said = slice ?? {};
  const names = slices.map(({ name }) => name);
  const isComplete = typeof said === "object" && Object.keys(said).length === names.length;
  if (!isComplete || !names.every((name) => Object.hasOwn(said, name))) {
    const needed = names.length ? `a label for each of ${names.join(", ")}` : "no slice";
    throw sliceError(`the collection takes ${needed}`, "Give a slice with one label for each dimension of slices in the definition.");
  }
  if (names.length === 0) return digest;
  const hashed = utf8(LABEL).concat(Array.from(fullDigest));
  // Names are ASCII, so this is the order of their bytes.
  for (const one of [...slices].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    for (const text of [one.name, listed(one, said[one.name])]) {
      const bytes = utf8(text);
      const length = new Uint8Array(4);
      putInteger(length, 0, 4, bytes.length);
      hashed.push(...Array.from(length), ...bytes);
    }
  }
  return sha256(Uint8Array.from(hashed)).slice(0, 8);
}

function utf8(text: string): number[] {
  return Array.from(new TextEncoder().encode(text));
}

function listed({ name, labels }: Dimension, label: unknown): string {
  if (typeof label === "string") {
    if (labels.includes(label)) return label;
    if (labels.includes(OTHER)) return OTHER;
  }
  throw sliceError(
    `the label that the device says of ${name} is none of the collection's`,
    `Give one of slices.${name}, or add ${OTHER} to it in the collection's file.`,
  );
}

function sliceError(message: string, remedy: string): DeviceError {
  return new DeviceError("E-DEVICE-SLICE", message, remedy);
}
