/** Where a device's state is kept in a browser, or in memory for tests. For files see file_store.ts. */

import { DeviceError } from "./errors.js";

/** What becomes of the state: the bytes to keep, if they change, and a result for the caller. */
export interface Change<Result> {
  keep?: Uint8Array;
  result: Result;
}

/** One device's state. */
export interface Store {
  /**
   * Changes the state; durable when this answers. Nobody else reads or changes it meanwhile.
   *
   * `change` is given the kept bytes, or null where there never was a state. It answers at once; if it throws,
   * nothing changes.
   *
   * @throws DeviceError the state is lost, or cannot be kept.
   */
  update<Result>(change: (content: Uint8Array | null) => Change<Result>): Promise<Result>;
}

/** A state that ends with the program: for tests and audits, never for people's values. */
export class MemoryStore implements Store {
  #content: Uint8Array | null = null;

  async update<Result>(change: (content: Uint8Array | null) => Change<Result>): Promise<Result> {
    const { keep, result } = change(this.#content);
    if (keep) this.#content = keep;
    return result;
  }
}

/**
 * Says that there is a state, in another place than the state itself. Both functions answer at once. One that throws
 * costs protection, never a report of a device whose state is there.
 */
export interface Sentinel {
  present(): boolean;
  set(): void;
}

export interface IndexedDbOptions {
  /** Seconds to wait for the browser. */
  timeout?: number;
}

const OBJECTS = "state";

/** A state in IndexedDB. Tabs and workers of a site share it, and take turns by its transactions. */
export class IndexedDbStore implements Store {
  readonly #database: IDBDatabase;
  readonly #sentinel: Sentinel | null;
  readonly #timeout: number;
  #guarded = false;

  private constructor(database: IDBDatabase, sentinel: Sentinel | null, timeout: number) {
    this.#database = database;
    this.#sentinel = sentinel;
    this.#timeout = timeout;
    database.onversionchange = () => database.close();
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
    return new Promise((resolve, reject) => {
      let waits = true;
      const end = (act: () => void): void => {
        waits = false;
        clearTimeout(timer);
        act();
      };
      const fail = (error: unknown): void => end(() => reject(refused(error)));
      const timer = setTimeout(() => fail(silent(timeout)), milliseconds(timeout));
      try {
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
          if (!waits) return request.result.close(); // too late: nobody would close it
          end(() => resolve(new IndexedDbStore(request.result, sentinel, timeout)));
        };
        request.onerror = () => fail(request.error);
        request.onblocked = () => fail("another version of the program holds it");
      } catch (error) {
        fail(error); // no IndexedDB, or not for this page
      }
    });
  }

  /**
   * Whether, when the state was last looked at, a sentinel said that there is one. Without it a deleted database is taken
   * for a device that never was: a new one begins, and spends up to ε∞ once more for the same value.
   */
  get guarded(): boolean {
    return this.#guarded;
  }

  update<Result>(change: (content: Uint8Array | null) => Change<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      let transaction: IDBTransaction | undefined;
      const end = (act: () => void): void => {
        clearTimeout(timer);
        act();
      };
      // Once a promise is settled, settling it again does nothing: the first one to end it counts.
      const fail = (error: unknown): void => {
        end(() => reject(error));
        try {
          transaction?.abort();
        } catch {
          // It has ended, or is being kept: then the device answers with the same bytes when it is asked again.
        }
      };
      const timer = setTimeout(() => fail(refused(silent(this.#timeout))), milliseconds(this.#timeout));
      try {
        transaction = this.#database.transaction(OBJECTS, "readwrite", { durability: "strict" });
        const objects = transaction.objectStore(OBJECTS);
        const reading = objects.get(OBJECTS);
        let result: Result;
        let kept = false;
        transaction.onabort = () => fail(refused(transaction?.error));
        transaction.oncomplete = () => {
          // Only now: a browser that stops before has lost nothing, and must not say that it had.
          if (kept) this.#guarded = guard(this.#sentinel);
          end(() => resolve(result));
        };
        reading.onsuccess = () => {
          try {
            const content = bytesOf(reading.result);
            if (!content && this.#sentinel && present(this.#sentinel)) throw lost("the site's data");
            let done: Change<Result>;
            try {
              done = change(content);
            } catch (error) {
              return fail(error);
            }
            result = done.result;
            if (done.keep) objects.put(done.keep, OBJECTS);
            kept = content !== null || done.keep !== undefined;
          } catch (error) {
            fail(refused(error));
          }
        };
      } catch (error) {
        fail(refused(error)); // the database was closed or deleted, or is another program's
      }
    });
  }

  close(): void {
    this.#database.close();
  }
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
      present: () => storage.getItem(name) !== null,
      set: () => storage.setItem(name, "a device's state is in IndexedDB"),
    };
  } catch {
    return null;
  }
}

/**
 * What a sentinel says, of a state that is not there.
 *
 * @throws DeviceError it says nothing, so that a lost state cannot be told from a new device.
 */
function present(sentinel: Sentinel): boolean {
  let answer: unknown;
  try {
    answer = sentinel.present();
  } catch (error) {
    throw refused(`the sentinel fails: ${textOf(error)}`);
  }
  if (typeof answer === "boolean") return answer;
  ignore(answer);
  throw refused("the sentinel says neither true nor false");
}

/** Sets the sentinel of a state that is kept, unless it is set; whether it is then. Whatever it throws is its own. */
function guard(sentinel: Sentinel | null): boolean {
  if (!sentinel) return false;
  try {
    const before: unknown = sentinel.present();
    if (before === true) return true;
    ignore(before);
    ignore(sentinel.set());
    const after: unknown = sentinel.present();
    ignore(after);
    return after === true;
  } catch {
    return false;
  }
}

/** A promise, from a function that should answer at once, must not be reported as one that nobody looks at. */
function ignore(answer: unknown): void {
  Promise.resolve(answer).catch(() => undefined);
}

/** Of a timer; a longer one would fire at once. */
export function milliseconds(seconds: number): number {
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

function silent(seconds: number): string {
  return `the browser has not answered for ${seconds} s`;
}

/** The state is gone, and the sentinel is there. */
export function lost(where: string): DeviceError {
  return new DeviceError(
    "E-DEVICE-STATE-LOST",
    `this device reported before, and its state in ${where} is gone; a new one would draw its permanent responses ` +
      "again, and each new draw spends up to ε∞ once more for the same value",
    "Restore the state from a copy; or remove the sentinel to spend the privacy again.",
  );
}

/** The state cannot be kept. */
export function refused(why: unknown): DeviceError {
  if (why instanceof DeviceError) return why;
  return new DeviceError(
    "E-DEVICE-STORE",
    `the device's state cannot be kept (${textOf(why)})`,
    "Make room, or correct permissions, and ask again: each epoch has one report.",
  );
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
