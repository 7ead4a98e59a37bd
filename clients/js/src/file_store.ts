/** A device's state in a folder, for Node; processes of one machine share it. */

import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { toHex } from "./bytes.js";
import { type Change, changed, type Known, type Turn, withdrawn } from "./change.js";
import { Counter } from "./counter.js";
import { DeviceError } from "./errors.js";
import { codeOf, isTemporary, readFile, syncAbove, syncFolder, writeFile } from "./files.js";
import { systemBytes } from "./randomness.js";
import type { State } from "./state.js";
import { refused, type Store } from "./store.js";

/** Longest wait for other processes, milliseconds. */
const PATIENCE = 30_000;

/**
 * A file that is wholly there or wholly not, whatever stops the machine: written beside, forced to disk, renamed.
 * The folder is on a local disk.
 *
 * The sentinel holds how often the state has changed, and gets each new number once the state is on disk, and before
 * anything leaves the device. So a state with a smaller number is an older copy. One with a larger number was written by
 * a process that ended right after; its name is forced to disk before anybody relies on it.
 */
export class FileStore implements Store {
  readonly #folder: string;
  readonly #path: string;
  /** Where state and sentinel lie. */
  readonly #folders: string[];
  readonly #sentinel: Counter;
  readonly #claimant = claimant();

  /**
   * @param folder of the device, made where it is missing.
   * @param sentinel file that tells a lost state and an older one; best kept where it is not lost together with the
   *   folder.
   */
  constructor(folder: string, sentinel: string = join(folder, "sentinel")) {
    this.#folder = folder;
    this.#path = join(folder, "state");
    this.#sentinel = new Counter(sentinel);
    this.#folders = [folder, dirname(sentinel)];
  }

  update<Result>(change: (state: State | null) => Change<Result>): Promise<Result> {
    return this.#transaction((content, known) => changed(content, known, this.#path, change));
  }

  withdraw(): Promise<void> {
    return this.#transaction(withdrawn);
  }

  async #transaction<Result>(act: (content: Uint8Array | null, known: Known) => Turn<Result>): Promise<Result> {
    const release = await this.#turn();
    try {
      const content = said(() => readFile(this.#path));
      const known = said(() => this.#sentinel.read());
      const turn = act(content, known);
      said(() => this.#keep(turn, content === null, known));
      return turn.result;
    } finally {
      said(release);
    }
  }

  #keep({ keep, changes }: Turn<unknown>, isNew: boolean, known: Known): void {
    if (changes === 0 || changes === known) return;
    if (keep) {
      // Before there is something to lose: else the state could go with its folder.
      if (isNew) this.#folders.forEach(syncAbove);
      writeFile(this.#path, keep);
    } else {
      syncFolder(this.#folder);
    }
    this.#sentinel.write(changes);
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
    said(() => {
      for (const folder of this.#folders) fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    });
    for (;;) {
      const release = (): void => fs.rmSync(claim, { force: true });
      try {
        if (said(() => this.#claimed(claim))) return release;
      } catch (error) {
        said(release);
        throw error;
      }
      said(release);
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

  /** Puts up a claim; whether it is the only one of a living process. */
  #claimed(claim: string): boolean {
    fs.writeFileSync(claim, "", { flag: "wx", mode: 0o600 });
    const names = fs.readdirSync(this.#folder);
    const others = names.filter((name) => name.startsWith("claim-") && join(this.#folder, name) !== claim);
    if (!others.every((name) => this.#cleared(name))) return false;
    this.#clean(names);
    return true;
  }

  /** Removes what processes were writing when they ended: a secret may be in it. */
  #clean(names: string[]): void {
    const own = [this.#path, this.#sentinel.path].filter((path) => resolve(dirname(path)) === resolve(this.#folder));
    for (const name of names.filter((one) => own.some((path) => isTemporary(one, path)))) {
      fs.rmSync(join(this.#folder, name), { force: true });
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
    if (codeOf(error) === "ESRCH") return false;
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

/** What a person can do about a disk that refuses. */
function said<Result>(act: () => Result): Result {
  try {
    return act();
  } catch (error) {
    throw error instanceof DeviceError ? error : refused(error as Error);
  }
}
