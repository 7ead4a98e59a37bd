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

/** Says that there is a state, in another place than the state itself. */
export interface Sentinel {
  present(): boolean;
  set(): void;
}

const OBJECTS = "state";

/** A state in IndexedDB. Tabs and workers of a site share it, and take turns by its transactions. */
export class IndexedDbStore implements Store {
  readonly #database: IDBDatabase;
  readonly #sentinel: Sentinel | null;

  private constructor(database: IDBDatabase, sentinel: Sentinel | null) {
    this.#database = database;
    this.#sentinel = sentinel;
    database.onversionchange = () => database.close();
  }

  /**
   * @param name of the database, the same for all collections of the site.
   * @param sentinel an entry of localStorage unless given; null where there is none, as in workers.
   */
  static async open(name = "ldpbeam-device", sentinel: Sentinel | null = localSentinel(name)): Promise<IndexedDbStore> {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(OBJECTS);
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(refused(request.error));
      request.onblocked = () => reject(refused(null));
    });
    return new IndexedDbStore(database, sentinel);
  }

  update<Result>(change: (content: Uint8Array | null) => Change<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      let transaction: IDBTransaction;
      try {
        transaction = this.#database.transaction(OBJECTS, "readwrite", { durability: "strict" });
      } catch (error) {
        return reject(refused(error as Error)); // the database was deleted, or has a newer version
      }
      const objects = transaction.objectStore(OBJECTS);
      const reading = objects.get(OBJECTS);
      let done: Change<Result>;
      let failure: unknown;
      reading.onsuccess = () => {
        try {
          const content = (reading.result as Uint8Array | undefined) ?? null;
          if (!content && this.#sentinel?.present()) throw lost("the site's data");
          done = change(content);
          if (done.keep) objects.put(done.keep, OBJECTS);
        } catch (error) {
          failure = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => {
        // Only now: a browser that stops before has lost nothing, and must not say that it had.
        if (!this.#sentinel?.present()) this.#sentinel?.set();
        resolve(done.result);
      };
      transaction.onabort = () => reject(failure ?? refused(transaction.error));
    });
  }

  close(): void {
    this.#database.close();
  }
}

function localSentinel(name: string): Sentinel | null {
  try {
    const storage = globalThis.localStorage;
    return {
      present: () => storage.getItem(name) !== null,
      set: () => storage.setItem(name, "a device's state is in IndexedDB"),
    };
  } catch {
    return null;
  }
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
export function refused(error: { message: string } | null): DeviceError {
  return new DeviceError(
    "E-DEVICE-STORE",
    `the device's state cannot be kept (${error?.message || "another version of the program holds it"})`,
    "Make room, or correct permissions; nothing was reported.",
  );
}
