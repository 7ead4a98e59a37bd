/** A device's state in a folder, for Node; processes of one machine share it. */

import * as fs from "node:fs";
import { join } from "node:path";
import { toHex } from "./bytes.js";
import { DeviceError } from "./errors.js";
import { systemBytes } from "./randomness.js";
import { type Change, lost, refused, type Store } from "./store.js";

/** Longest wait for other processes, milliseconds. */
const PATIENCE = 30_000;

/**
 * A file that is wholly there or wholly not, whatever stops the machine: written beside, forced to disk, renamed.
 * The folder is on a local disk.
 */
export class FileStore implements Store {
  readonly #folder: string;
  readonly #path: string;
  readonly #sentinel: string;
  readonly #claimant = claimant();
  /** What this process has made durable itself, or found to be durable. */
  #settled: Buffer | null = null;

  /**
   * @param folder of the device, made where it is missing.
   * @param sentinel file that says that there is a state; best kept where it is not lost together with the folder.
   */
  constructor(folder: string, sentinel: string = join(folder, "sentinel")) {
    this.#folder = folder;
    this.#path = join(folder, "state");
    this.#sentinel = sentinel;
  }

  async update<Result>(change: (content: Uint8Array | null) => Change<Result>): Promise<Result> {
    const release = await this.#turn();
    try {
      const content = said(() => read(this.#path));
      const marked = fs.existsSync(this.#sentinel);
      if (!content && marked) throw lost(this.#path);
      const { keep, result } = change(content);
      said(() => {
        if (keep) {
          this.#settled = null;
          write(this.#path, keep);
          this.#settled = Buffer.from(keep);
        } else if (content && !this.#settled?.equals(content)) {
          // Another process may have ended before it had made the folder durable.
          syncFolder(this.#folder);
          this.#settled = content;
        }
        // Only now: a machine that stops before has lost nothing, and must not say that it had.
        if (!marked && (keep || content)) write(this.#sentinel, new Uint8Array(0));
      });
      return result;
    } finally {
      said(release);
    }
  }

  /**
   * A turn, which lasts until it is released or the process ends.
   *
   * Whoever wants one puts up a claim of its own name, and has the turn if no other claim of a living process is
   * there then. Of two that put up theirs, the later one sees the other; a claim of a process that has ended may
   * be removed by anybody, since no name comes twice.
   */
  async #turn(): Promise<() => void> {
    const claim = join(this.#folder, `claim-${this.#claimant}-${toHex(systemBytes(8))}`);
    const until = Date.now() + PATIENCE;
    said(() => makeFolder(this.#folder));
    for (;;) {
      said(() => fs.writeFileSync(claim, "", { flag: "wx", mode: 0o600 }));
      const release = (): void => fs.rmSync(claim, { force: true });
      try {
        const others = said(() => fs.readdirSync(this.#folder)).filter((name) => name.startsWith("claim-"));
        if (others.every((name) => join(this.#folder, name) === claim || this.#cleared(name))) return release;
      } catch (error) {
        release();
        throw error;
      }
      release();
      if (Date.now() > until) {
        throw new DeviceError(
          "E-DEVICE-BUSY",
          `another process has held ${this.#folder} for ${PATIENCE / 1000} s`,
          "End it; if there is none, remove the files whose names begin with claim-.",
        );
      }
      await new Promise((resume) => setTimeout(resume, 1 + (systemBytes(1)[0] % 16)));
    }
  }

  /** Removes a claim whose process has ended; whether it has. */
  #cleared(name: string): boolean {
    const alive = lives(name.split("-").slice(1, 5) as Claim);
    if (!alive) fs.rmSync(join(this.#folder, name), { force: true });
    return !alive;
  }
}

/** Boot, process namespace, process id and start of a process; 0 where the system does not say. */
type Claim = [boot: string, namespace: string, pid: string, start: string];

function claimant(): string {
  return [boot(), namespace(), process.pid, started("self")].join("-");
}

function lives([itsBoot, itsNamespace, pid, start]: Claim): boolean {
  if (itsBoot !== boot()) return false;
  if (itsNamespace !== namespace()) return true; // its ids are not ours to judge
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  const now = started(pid);
  return now === "0" || start === "0" || now === start;
}

function boot(): string {
  return text("/proc/sys/kernel/random/boot_id").slice(0, 8) || "0";
}

function namespace(): string {
  try {
    return fs.readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
  } catch {
    return "0";
  }
}

/** When a process began, in ticks since the boot; 0 where the system does not say, and "ended" of its remains. */
function started(pid: string): string {
  // The name, in parentheses, may hold anything.
  const fields = text(`/proc/${pid}/stat`).split(") ").pop()?.split(" ") ?? [];
  if (fields.length < 20) return "0";
  return "ZX".includes(fields[0]) ? "ended" : fields[19];
}

function text(path: string): string {
  try {
    return fs.readFileSync(path, "utf-8");
  } catch {
    return "";
  }
}

function read(path: string): Buffer | null {
  try {
    return fs.readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Puts `content` in place of a file, mode 0600; durable when this returns. One writer at a time. */
function write(path: string, content: Uint8Array): void {
  const temporary = `${path}.tmp`;
  const file = fs.openSync(temporary, "w", 0o600);
  try {
    for (let at = 0; at < content.length; ) at += fs.writeSync(file, content, at);
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
  fs.renameSync(temporary, path);
  syncFolder(join(path, ".."));
}

function syncFolder(folder: string): void {
  if (process.platform === "win32") return; // no such thing there
  const handle = fs.openSync(folder, "r");
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}

function makeFolder(folder: string): void {
  if (fs.existsSync(folder)) return;
  makeFolder(join(folder, ".."));
  try {
    fs.mkdirSync(folder, 0o700);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  syncFolder(join(folder, ".."));
}

/** What a person can do about a disk that refuses. */
function said<Result>(act: () => Result): Result {
  try {
    return act();
  } catch (error) {
    throw error instanceof DeviceError ? error : refused(error as Error);
  }
}
