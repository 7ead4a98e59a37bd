/** Files of Node that are there whole or not at all, opened at exactly the path that was given. */

import * as fs from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { toHex } from "./bytes.js";
import { DeviceError } from "./errors.js";
import { systemBytes } from "./randomness.js";

const { O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY, O_WRONLY, O_CREAT, O_EXCL } = fs.constants;

/**
 * Opens the regular file at a path, reads or writes it, and closes it; a link is not followed, a pipe not waited for.
 *
 * @returns null where there is no file.
 * @throws DeviceError E-DISK-LINK: something else lies there.
 */
function withFile<Result>(path: string, flags: number, act: (file: number) => Result): Result | null {
  try {
    // As Windows has it.
    if (!O_NOFOLLOW && fs.lstatSync(path).isSymbolicLink()) throw noFile(path);
    const file = fs.openSync(path, flags | O_NOFOLLOW | O_NONBLOCK);
    try {
      if (!fs.fstatSync(file).isFile()) throw noFile(path);
      return act(file);
    } finally {
      fs.closeSync(file);
    }
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return null;
    if (["ELOOP", "EMLINK", "EISDIR", "ENXIO"].includes(code ?? "")) throw noFile(path);
    throw error;
  }
}

/** The content of a file; null where there is none. */
export function readFile(path: string): Buffer | null {
  return withFile(path, O_RDONLY, (file) => fs.readFileSync(file));
}

/** Writes over a part of a file; whether there is one. A loss of power may take it back. */
export function overwrite(path: string, at: number, content: Uint8Array): boolean {
  const written = withFile(path, O_WRONLY, (file) => {
    writeAll(file, content, at);
    return true;
  });
  return written ?? false;
}

/** Puts `content` in place of a file, mode 0600; durable when this returns. Its temporary name is new. */
export function writeFile(path: string, content: Uint8Array): void {
  const temporary = `${path}.${toHex(systemBytes(4))}.tmp`;
  const file = fs.openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    try {
      writeAll(file, content, 0);
      fs.fsyncSync(file);
    } finally {
      fs.closeSync(file);
    }
    fs.renameSync(temporary, path);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(path));
}

/** Whether a name is that of a file which a process was writing in place of `path` when it ended. */
export function isTemporary(name: string, path: string): boolean {
  const own = basename(path);
  return name.startsWith(own) && /^\.[0-9a-f]{8}\.tmp$/.test(name.slice(own.length));
}

/** Forces to disk which names a folder holds. */
export function syncFolder(folder: string): void {
  if (process.platform === "win32") return; // no such thing there
  const handle = fs.openSync(folder, O_RDONLY);
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}

/** Forces to disk that a folder is where it is, up to the root of its file system: another process may have made it. */
export function syncAbove(folder: string): void {
  const { dev } = fs.statSync(folder);
  for (let path = resolve(folder), above = dirname(path); above !== path; path = above, above = dirname(path)) {
    if (fs.statSync(above).dev !== dev) return;
    try {
      syncFolder(above);
    } catch (error) {
      if (codeOf(error) !== "EACCES") throw error; // somebody else made what this process may not open
    }
  }
}

export function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code;
}

function writeAll(file: number, content: Uint8Array, from: number): void {
  for (let at = 0; at < content.length; ) at += fs.writeSync(file, content, at, content.length - at, from + at);
}

function noFile(path: string): DeviceError {
  return new DeviceError(
    "E-DISK-LINK",
    `a link or something else that is no file lies at ${path}`,
    "Move it away, or choose another folder.",
  );
}
