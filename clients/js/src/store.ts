/** Where a device's state is kept in a browser, or in memory for tests. For files see file_store.ts. */

import { toHex } from "./bytes.js";
import { type Change, changed, type Known, type Turn, withdrawn } from "./change.js";
import { DeviceError } from "./errors.js";
import { sha256 } from "./sha256.js";
import type { State } from "./state.js";

/** One device's state. */
export interface Store {
  /**
   * Changes the state; durable when this answers. Nobody else reads or changes it meanwhile.
   *
   * `change` is given the state, or null where there never was one. It answers at once; if it throws, nothing changes.
   *
   * @throws DeviceError the state is lost, damaged, older than it was, or of another version; or it cannot be kept.
   */
  update<Result>(change: (state: State | null) => Change<Result>): Promise<Result>;

  /**
   * Keeps that the person has withdrawn, and nothing else, whatever was kept before; durable when this answers.
   *
   * @throws DeviceError it cannot be kept; to be called again.
   */
  withdraw(): Promise<void>;
}

/** A state that ends with the program: for tests and audits, never for people's values. */
export class MemoryStore implements Store {
  #content: Uint8Array | null = null;

  async update<Result>(change: (state: State | null) => Change<Result>): Promise<Result> {
    const { keep, result } = changed(this.#content, null, "memory", change);
    if (keep) this.#content = keep;
    return result;
  }

  async withdraw(): Promise<void> {
    this.#content = withdrawn(this.#content, null).keep;
  }
}

/**
 * Knows how often the state has changed, in another place than the state itself. So a state that is gone is told from
 * one that never was, and an older copy from the newest state. Both functions answer at once. One that throws costs
 * protection, never a report of a device whose state is there.
 */
export interface Sentinel {
  /** The number that was written last, or one before it; null where none ever was. */
  read(): number | null;
  /** Called once the state is kept, and before a report leaves. */
  write(changes: number): void;
}

export interface IndexedDbOptions {
  /** Seconds to wait for the browser. */
  timeout?: number;
}

const OBJECTS = "state";

/** A state in IndexedDB. Tabs and workers of a site share it, and take turns by its transactions. */
export class IndexedDbStore implements Store {
  readonly #name: string;
  readonly #sentinel: Sentinel | null;
  readonly #timeout: number;
  /** The browser may close it: in the background, for want of room, or for another tab. */
  #connection: Promise<IDBDatabase> | null = null;
  #closed = false;
  #guarded = false;

  private constructor(name: string, sentinel: Sentinel | null, timeout: number) {
    this.#name = name;
    this.#sentinel = sentinel;
    this.#timeout = timeout;
  }

  /**
   * @param name of the database, the same for all collections of the site.
   * @param sentinel an entry of localStorage unless given; null for none. There is none where localStorage is missing
   *   or blocked, as in workers and in some WebViews: see `guarded`.
   * @throws DeviceError there is no IndexedDB, or the browser refuses it or does not answer.
   */
  static async open(
    name = "ldpbeam-device",
    sentinel: Sentinel | null = localSentinel(name),
    { timeout = 30 }: IndexedDbOptions = {},
  ): Promise<IndexedDbStore> {
    const store = new IndexedDbStore(name, sentinel, timeout);
    try {
      await store.#connected();
    } catch (error) {
      throw refused(error);
    }
    return store;
  }

  /**
   * Whether, when the state was last looked at, a sentinel knew how often it has changed. Without it a deleted database
   * is taken for a device that never was, and an older copy for the newest state: either may spend up to ε∞ once more
   * for the same value.
   */
  get guarded(): boolean {
    return this.#guarded;
  }

  update<Result>(change: (state: State | null) => Change<Result>): Promise<Result> {
    return this.#transaction((content, known) => {
      // What fails to say how often the state has changed guards nothing, and stops nothing that is there.
      return changed(content, content && known instanceof DeviceError ? null : known, "the site's data", change);
    });
  }

  withdraw(): Promise<void> {
    return this.#transaction(withdrawn);
  }

  close(): void {
    this.#closed = true;
    this.#connection?.then((database) => database.close(), () => undefined);
  }

  #connected(): Promise<IDBDatabase> {
    return (this.#connection ??= connect(this.#name, this.#timeout));
  }

  async #transaction<Result>(act: Act<Result>): Promise<Result> {
    let outcome: () => Result;
    try {
      outcome = await this.#attempt(act);
    } catch (error) {
      if (error instanceof DeviceError) throw error;
      // Once more, on a new connection: a transaction that the browser refuses or gives up has changed nothing.
      outcome = await this.#attempt(act).catch((reason: unknown) => Promise.reject(refused(reason)));
    }
    return outcome();
  }

  /** What `act` returned or threw; only what the browser does rejects. */
  async #attempt<Result>(act: Act<Result>): Promise<() => Result> {
    if (this.#closed) throw refused("the program has closed the store", "Open it again.");
    const database = await this.#connected().catch((error: unknown) => {
      this.#connection = null;
      if (error instanceof DeviceError) throw error;
      throw refused(`the browser has closed the connection, and opens no other: ${textOf(error)}`, RELOAD);
    });
    let abort = (): void => undefined;
    try {
      return await answered<() => Result>(this.#timeout, (done, fail) => {
        const transaction = database.transaction(OBJECTS, "readwrite", { durability: "strict" });
        abort = () => transaction.abort();
        transaction.onabort = () => fail(transaction.error);
        const objects = transaction.objectStore(OBJECTS);
        const reading = objects.get(OBJECTS);
        reading.onsuccess = () => {
          let turn: Turn<Result>;
          try {
            turn = act(bytesOf(reading.result), this.#sentinel && known(this.#sentinel));
          } catch (error) {
            return done(() => {
              throw error;
            });
          }
          try {
            if (turn.keep) objects.put(turn.keep, OBJECTS);
          } catch (error) {
            return fail(error);
          }
          transaction.oncomplete = () => {
            // Only now: a browser that stops before has lost nothing, and must not say that it had.
            this.#guarded = turn.changes > 0 && guard(this.#sentinel, turn.changes);
            done(() => turn.result);
          };
        };
      });
    } catch (error) {
      this.#connection = null;
      database.close();
      try {
        abort();
      } catch {
        // It has ended, or is being kept: then the device answers with the same bytes when it is asked again.
      }
      throw error;
    }
  }
}

type Act<Result> = (content: Uint8Array | null, known: Known) => Turn<Result>;

function connect(name: string, timeout: number): Promise<IDBDatabase> {
  let late = false;
  const opening = answered<IDBDatabase>(timeout, (done, fail) => {
    const request = globalThis.indexedDB.open(name, 1);
    request.onupgradeneeded = () => {
      try {
        request.result.createObjectStore(OBJECTS);
      } catch (error) {
        fail(error);
        request.transaction?.abort();
      }
    };
    request.onsuccess = () => {
      const database = request.result;
      if (late) return database.close(); // nobody else would
      database.onversionchange = () => database.close();
      done(database);
    };
    request.onerror = () => fail(request.error);
    request.onblocked = () => fail("another version of the program holds it");
  });
  opening.catch(() => (late = true));
  return opening;
}

/** A promise that `done` or `fail` settles, or an error after so many seconds. */
function answered<Answer>(
  seconds: number,
  ask: (done: (answer: Answer) => void, fail: (error: unknown) => void) => void,
): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout>;
  return new Promise<Answer>((done, fail) => {
    timer = setTimeout(() => fail(refused(`the browser has not answered for ${seconds} s`, RELOAD)), milliseconds(seconds));
    ask(done, fail);
  }).finally(() => clearTimeout(timer));
}

/** What was kept; null where nothing is. Whatever is not bytes is no state. */
function bytesOf(found: unknown): Uint8Array | null {
  if (found === undefined) return null;
  return ArrayBuffer.isView(found)
    ? new Uint8Array(found.buffer, found.byteOffset, found.byteLength)
    : new Uint8Array(0);
}

/** An entry of localStorage; null where there is no localStorage that answers. */
function localSentinel(name: string): Sentinel | null {
  try {
    const storage = globalThis.localStorage;
    storage.getItem(name);
    return {
      read: () => changesOf(storage.getItem(name)),
      write: (changes) => storage.setItem(name, textOfChanges(changes)),
    };
  } catch {
    return null;
  }
}

/** The number with a digest: damage could make it too large, and the newest state look like an older copy. */
function textOfChanges(changes: number): string {
  return `${changes} ${toHex(sha256(new TextEncoder().encode(`ldpbeam changes ${changes}`)))}`;
}

/** The number in an entry; 0 where it is damaged: there was a state, and that is all that it says. */
function changesOf(entry: string | null): number | null {
  if (entry === null) return null;
  const changes = Number.parseInt(entry, 10);
  return entry === textOfChanges(changes) ? changes : 0;
}

/** What a sentinel says. */
function known(sentinel: Sentinel): Known {
  let answer: unknown;
  try {
    answer = sentinel.read();
  } catch (error) {
    return refused(`the sentinel fails: ${textOf(error)}`);
  }
  if (answer === null || isChanges(answer)) return answer;
  ignore(answer);
  return refused("the sentinel says neither a number nor null");
}

/** Lets a sentinel know of changes that are kept, unless it knows; whether it then does. Whatever it throws is its own. */
function guard(sentinel: Sentinel | null, changes: number): boolean {
  if (!sentinel) return false;
  // Another tab may have been faster: a number never becomes smaller.
  const knows = (): boolean => {
    const answer = known(sentinel);
    return typeof answer === "number" && answer >= changes;
  };
  if (knows()) return true;
  try {
    ignore(sentinel.write(changes));
  } catch {
    return false;
  }
  return knows();
}

function isChanges(answer: unknown): answer is number {
  return Number.isSafeInteger(answer) && (answer as number) >= 0;
}

/** A promise, from a function that should answer at once, must not be reported as one that nobody looks at. */
function ignore(answer: unknown): void {
  Promise.resolve(answer).catch(() => undefined);
}

/** Of a timer; a longer one would fire at once. */
export function milliseconds(seconds: number): number {
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

const RELOAD = "Reload the page, and ask again: each epoch has one report.";

/** The state cannot be kept. */
export function refused(
  why: unknown,
  remedy = "Make room, or correct permissions, and ask again: each epoch has one report.",
): DeviceError {
  if (why instanceof DeviceError) return why;
  return new DeviceError("E-DEVICE-STORE", `the device's state cannot be kept (${textOf(why)})`, remedy);
}

/** What an error says, whatever was thrown. */
function textOf(thrown: unknown): string {
  try {
    const message = typeof thrown === "string" ? thrown : (thrown as { message?: unknown } | null)?.message;
    return typeof message === "string" && message ? message : "no reason given";
  } catch {
    return "no reason given";
  }
}
