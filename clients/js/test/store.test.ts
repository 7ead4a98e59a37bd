/**
 * The state in IndexedDB, on a stand-in for a browser's: whatever localStorage, a sentinel or the browser do, a promise
 * is settled, with a report or a DeviceError. tests/browser has the same in Chromium.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { forceCloseDatabase, IDBDatabase, IDBFactory, IDBObjectStore } from "fake-indexeddb";
import { Device } from "../src/device.js";
import { DeviceError } from "../src/errors.js";
import { Sender } from "../src/outbox.js";
import { IndexedDbStore, type Sentinel } from "../src/store.js";
import { definitionOf } from "./devices.js";

const has = (code: string, text = "") => (error: unknown) => {
  assert.ok(error instanceof DeviceError, String(error));
  assert.equal(error.code, code);
  assert.ok(error.message.includes(text), error.message);
  return true;
};

/** Gives a global of browsers a value for one test; `get` runs each time that it is looked at. */
function give(t: TestContext, name: string, get: () => unknown): void {
  const before = Object.getOwnPropertyDescriptor(globalThis, name);
  Object.defineProperty(globalThis, name, { get, configurable: true });
  t.after(() => {
    if (before) Object.defineProperty(globalThis, name, before);
    else delete (globalThis as Record<string, unknown>)[name];
  });
}

/** A browser's IndexedDB, empty. */
function browser(t: TestContext): IDBFactory {
  const factory = new IDBFactory();
  give(t, "indexedDB", () => factory);
  // node:test fails where something is thrown that nobody catches, or a promise is rejected that nobody looks at.
  return factory;
}

/** A page's localStorage. */
class Storage {
  readonly kept = new Map<string, string>();
  getItem(name: string): string | null {
    return this.kept.get(name) ?? null;
  }
  setItem(name: string, text: string): void {
    this.kept.set(name, text);
  }
}

const blocked = (): never => {
  throw new DOMException("The operation is insecure.", "SecurityError");
};

const report = async (store: IndexedDbStore, epoch = 1): Promise<Uint8Array> =>
  (await Device.open(definitionOf("grr"), store)).report(3, epoch);

/** The promise, or an error where it is not settled soon. */
async function settled<Result>(promise: Promise<Result>): Promise<Result> {
  let timer: ReturnType<typeof setTimeout>;
  const never = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("never settled")), 2000);
  });
  return Promise.race([promise, never]).finally(() => clearTimeout(timer));
}

/** The bytes that are kept; others are put in their place where they are given, none for null. */
async function raw(factory: IDBFactory, content?: unknown): Promise<Uint8Array> {
  const request = factory.open("device", 1);
  await new Promise((done) => (request.onsuccess = done));
  const transaction = request.result.transaction("state", "readwrite");
  const objects = transaction.objectStore("state");
  if (content === null) objects.delete("state");
  else if (content !== undefined) objects.put(content, "state");
  const reading = objects.get("state");
  await new Promise((done) => (transaction.oncomplete = done));
  request.result.close();
  return reading.result as Uint8Array;
}

async function deleted(factory: IDBFactory, name: string): Promise<void> {
  const request = factory.deleteDatabase(name);
  await new Promise((done) => (request.onsuccess = done));
}

test("with localStorage a state is guarded: a deleted database is noticed", async (t) => {
  const factory = browser(t);
  const storage = new Storage();
  give(t, "localStorage", () => storage);
  const store = await IndexedDbStore.open("device");
  assert.equal(store.guarded, false); // there is nothing to guard yet
  const first = await settled(report(store));
  assert.equal(store.guarded, true);
  assert.deepEqual([...storage.kept.keys()], ["device"]);
  assert.deepEqual(await report(store), first);
  await deleted(factory, "device"); // the open database is closed by that
  await assert.rejects(settled(report(store)), has("E-DEVICE-STATE-LOST"));
  await assert.rejects(settled(IndexedDbStore.open("device").then(report)), has("E-DEVICE-STATE-LOST"));
  storage.kept.clear();
  assert.equal((await settled(IndexedDbStore.open("device").then(report))).length, first.length);
});

const missing: [string, () => unknown][] = [
  ["missing, as in workers", () => undefined],
  ["null, as in some WebViews", () => null],
  ["blocked", blocked],
  ["of no use", () => ({})],
  ["blocked when it is read", () => ({ getItem: blocked, setItem: blocked })],
];
for (const [what, get] of missing) {
  test(`localStorage that is ${what}: a report, and no guard`, async (t) => {
    const factory = browser(t);
    give(t, "localStorage", get);
    const store = await settled(IndexedDbStore.open("device"));
    const first = await settled(report(store));
    assert.deepEqual(await settled(report(store)), first);
    assert.equal(store.guarded, false);
    store.close();
    await deleted(factory, "device");
    await settled(IndexedDbStore.open("device").then(report)); // a new device: nothing guards
  });
}

test("a full localStorage: a report, and no guard until there is room", async (t) => {
  browser(t);
  const storage = new Storage();
  let room = false;
  const setItem = storage.setItem.bind(storage);
  storage.setItem = (name, text) => {
    if (!room) throw new DOMException("The quota has been exceeded.", "QuotaExceededError");
    setItem(name, text);
  };
  give(t, "localStorage", () => storage);
  const store = await IndexedDbStore.open();
  await settled(report(store));
  assert.equal(store.guarded, false);
  room = true;
  await settled(report(store, 2));
  assert.equal(store.guarded, true);
});

test("a localStorage that is blocked later on: the state that is there goes on, none begins", async (t) => {
  browser(t);
  const storage = new Storage();
  give(t, "localStorage", () => storage);
  const [store, empty] = [await IndexedDbStore.open("one"), await IndexedDbStore.open("two")];
  await settled(report(store));
  storage.getItem = storage.setItem = blocked;
  await settled(report(store, 2));
  assert.equal(store.guarded, false);
  await assert.rejects(settled(report(empty)), has("E-DEVICE-STORE", "the sentinel fails: The operation is insecure."));
});

const thrown = [new Error("no"), "no", null, undefined, 7, {}, { get message() { return blocked(); } }];
test("a sentinel that throws, whatever it throws: the state that is there goes on, none begins", async (t) => {
  browser(t);
  for (const [number, error] of thrown.entries()) {
    const name = `device ${number}`;
    const fails = (): never => {
      throw error;
    };
    await assert.rejects(settled(IndexedDbStore.open(name, { read: fails, write: fails }).then(report)), has("E-DEVICE-STORE"));
    // It cannot be set: a report, unguarded.
    const unset = await IndexedDbStore.open(name, { read: () => null, write: fails });
    const first = await settled(report(unset));
    assert.equal(unset.guarded, false);
    const store = await IndexedDbStore.open(name, { read: fails, write: fails });
    assert.deepEqual(await settled(report(store)), first);
    assert.equal(store.guarded, false);
  }
});

test("a sentinel that says neither a number nor null", async (t) => {
  browser(t);
  const no = () => Promise.reject(new Error("no"));
  const answers = [undefined, true, -1, 0.5, 2 ** 53, NaN, "1", {}].map((one): (() => unknown) => () => one);
  for (const [number, read] of [...answers, async () => 1, no].entries()) {
    const name = `device ${number}`;
    const rubbish = { read, write: no } as unknown as Sentinel;
    await assert.rejects(settled(IndexedDbStore.open(name, rubbish).then(report)), has("E-DEVICE-STORE", "neither a number nor null"));
    await settled(IndexedDbStore.open(name, null).then(report));
    const store = await IndexedDbStore.open(name, rubbish);
    await settled(report(store, 2));
    assert.equal(store.guarded, false);
  }
  const nothing = await IndexedDbStore.open("nothing", {} as Sentinel);
  await assert.rejects(settled(report(nothing)), has("E-DEVICE-STORE", "the sentinel fails"));
});

/** A sentinel of a test's own, and what was asked of it. */
class Noted implements Sentinel {
  readonly calls: string[] = [];
  constructor(public number: number | null = null) {}
  read(): number | null {
    this.calls.push("read");
    return this.number;
  }
  write(changes: number): void {
    this.calls.push(`write ${changes}`);
    this.number = changes;
  }
}

test("a sentinel knows each change that is kept, and no other; and never fewer than before", async (t) => {
  browser(t);
  const sentinel = new Noted();
  const written = () => sentinel.calls.splice(0).filter((one) => one !== "read");
  const store = await IndexedDbStore.open("device", sentinel);
  await assert.rejects(store.update(() => { throw new RangeError("mine"); }), RangeError);
  assert.equal(await store.update(() => ({ result: 1 })), 1);
  assert.deepEqual(written(), []); // nothing was kept, so nothing is to be guarded
  const device = await Device.open(definitionOf("grr"), store);
  assert.deepEqual(written(), ["write 1"]);
  await device.report(3, 1);
  assert.deepEqual(written(), ["write 2"]);
  await device.report(4, 1);
  await device.outbox.waiting();
  assert.deepEqual([written(), store.guarded], [[], true]);
  const [waiting] = await device.outbox.waiting();
  for (const expected of [["write 3"], []]) { // another program has sent it
    await device.outbox.acknowledge(waiting);
    assert.deepEqual(written(), expected);
  }
  // Another tab may have written while this one's transaction was being kept.
  const read = t.mock.method(sentinel, "read");
  read.mock.mockImplementationOnce(() => 3, 0);
  read.mock.mockImplementation(() => 9);
  await device.report(3, 2);
  assert.deepEqual([written(), store.guarded], [[], true]);
});

test("an older copy of the database is noticed, and by a look already", async (t) => {
  const factory = browser(t);
  const storage = new Storage();
  give(t, "localStorage", () => storage);
  const device = await Device.open(definitionOf("grr"), await IndexedDbStore.open("device"));
  const copies = [await raw(factory)];
  for (let epoch = 0; epoch < 3; epoch++) {
    await device.report(3, epoch);
    copies.push(await raw(factory));
  }
  const [newest] = copies.splice(-1);
  for (const copy of copies) {
    await raw(factory, copy);
    for (const act of [() => device.report(3, 3), () => device.outbox.waiting(), () => device.outbox.dropped()]) {
      await assert.rejects(settled(act() as Promise<unknown>), has("E-DEVICE-STATE-OLDER", "the sentinel knows of 4"));
    }
    await assert.rejects(settled(IndexedDbStore.open("device").then(report)), has("E-DEVICE-STATE-OLDER"));
    assert.deepEqual(await raw(factory), copy);
  }
  // Nothing guards it where there is no localStorage: as README.md says.
  const unguarded = await IndexedDbStore.open("device", null);
  await report(unguarded, 3);
  assert.equal(unguarded.guarded, false);
  await raw(factory, newest);
  await device.report(3, 3);
});

test("a sentinel that was lost, or is behind, is written again", async (t) => {
  browser(t);
  const sentinel = new Noted();
  const store = await IndexedDbStore.open("device", sentinel);
  const device = await Device.open(definitionOf("grr"), store);
  await device.report(3, 1);
  for (const number of [null, 0, 1]) {
    sentinel.number = number;
    await device.outbox.waiting(); // a look is enough
    assert.deepEqual([sentinel.number, store.guarded], [2, true]);
  }
});

test("what is withdrawn leaves a mark alone, whatever was kept and whatever the sentinel says", async (t) => {
  const factory = browser(t);
  const storage = new Storage();
  give(t, "localStorage", () => storage);
  const device = await Device.open(definitionOf("grr"), await IndexedDbStore.open("device"));
  const older = await raw(factory);
  for (let epoch = 0; epoch < 3; epoch++) await device.report(3, epoch);
  const [sound, entry] = [await raw(factory), storage.kept.get("device")!];
  const wrong = sound.slice();
  wrong[60] ^= 1;
  for (const content of [sound, older, wrong, new Uint8Array(7), null]) {
    for (const text of [entry, "rubbish", null]) {
      if (text === null) storage.kept.clear();
      else storage.kept.set("device", text);
      await raw(factory, content);
      await settled(device.withdraw());
      const kept = await raw(factory);
      assert.ok(kept.length < 250, `${kept.length}`);
      await assert.rejects(settled(IndexedDbStore.open("device").then(report)), has("E-DEVICE-WITHDRAWN"));
      if (text !== entry) continue;
      await raw(factory, sound); // a copy does not undo it where the sentinel was sound
      await assert.rejects(settled(device.report(3, 5)), has("E-DEVICE-STATE-OLDER"));
    }
  }
  give(t, "localStorage", blocked);
  await raw(factory, null);
  const unguarded = await IndexedDbStore.open("device", { read: blocked, write: blocked });
  await settled(unguarded.withdraw());
  await assert.rejects(settled(report(unguarded)), has("E-DEVICE-WITHDRAWN"));
});

test("no IndexedDB, or one that refuses", async (t) => {
  let get: () => unknown = () => undefined;
  give(t, "indexedDB", () => get());
  for (get of [() => undefined, () => null, blocked, () => ({ open: blocked }), () => ({})]) {
    await assert.rejects(settled(IndexedDbStore.open("device", null)), has("E-DEVICE-STORE"));
  }
});

/** A request whose events a test makes. */
class Request {
  onsuccess?: () => void;
  onerror?: () => void;
  onblocked?: () => void;
  onupgradeneeded?: () => void;
  error: unknown = null;
  result: unknown;
  transaction: unknown = null;
}

test("a browser that answers with an error, never, or too late", async (t) => {
  const request = new Request();
  give(t, "indexedDB", () => ({ open: () => request }));
  const open = (timeout: number) => settled(IndexedDbStore.open("device", null, { timeout }));
  let opening = open(30);
  request.error = new DOMException("A mutation operation was attempted on a database that did not allow mutations.");
  request.onerror!();
  await assert.rejects(opening, has("E-DEVICE-STORE", "did not allow mutations"));
  opening = open(30);
  request.error = null;
  request.onerror!();
  await assert.rejects(opening, has("E-DEVICE-STORE", "no reason given"));
  let closed = 0;
  request.result = { close: () => closed++ };
  for (const wait of [async () => undefined, async () => request.onblocked!()]) {
    opening = open(0.05);
    await wait();
    await assert.rejects(opening, has("E-DEVICE-STORE"));
    request.onsuccess!(); // nobody would close it
  }
  assert.equal(closed, 2);
  opening = open(0.05);
  let aborted = 0;
  request.transaction = { abort: () => aborted++ };
  request.result = { createObjectStore: blocked, close: () => undefined };
  request.onupgradeneeded!();
  await assert.rejects(opening, has("E-DEVICE-STORE", "insecure"));
  assert.equal(aborted, 1);
});

test("a transaction that is never answered, or aborted, or whose database is another program's", async (t) => {
  const factory = browser(t);
  const store = await IndexedDbStore.open("device", null, { timeout: 0.1 });
  const first = await report(store);
  const device = await Device.open(definitionOf("grr"), store);
  // Another program holds the database in a transaction that does not end.
  const held = await new Promise<any>((resolve) => {
    const request = factory.open("device", 1);
    request.onsuccess = () => resolve(request.result);
  });
  const objects = held.transaction("state", "readwrite").objectStore("state");
  let hold = true;
  const spin = (): void => {
    if (hold) objects.get("state").onsuccess = spin;
  };
  spin();
  await assert.rejects(settled(device.report(4, 2)), has("E-DEVICE-STORE", "has not answered for 0.1 s"));
  hold = false;
  await new Promise((resume) => setTimeout(resume, 20));
  assert.deepEqual(await settled(report(store)), first); // what was given up has changed nothing
  await settled(report(store, 2));
  held.close();

  const other = factory.open("foreign", 1);
  await new Promise((done) => (other.onsuccess = done));
  other.result.close();
  await assert.rejects(settled(IndexedDbStore.open("foreign", null).then(report)), has("E-DEVICE-STORE"));
  const newer = factory.open("newer", 2);
  await new Promise((done) => (newer.onsuccess = done));
  await assert.rejects(settled(IndexedDbStore.open("newer", null)), has("E-DEVICE-STORE"));
  store.close();
  await assert.rejects(settled(report(store)), has("E-DEVICE-STORE", "the program has closed the store"));
});

/** Closes the newest connection, as a browser does; and counts the connections. */
function closing(t: TestContext): { close: (with_: (database: any) => void) => void; count: () => number } {
  const opened: any[] = [];
  const factory = browser(t);
  const open = factory.open.bind(factory);
  factory.open = (...asked) => {
    const request = open(...asked);
    request.addEventListener("success", () => opened.push(request.result));
    return request;
  };
  return { close: (how) => how(opened.at(-1)), count: () => opened.length };
}

for (const [how, close] of [["closes", forceCloseDatabase], ["closes without an event", (one: IDBDatabase) => one.close()]] as const) {
  test(`a connection that the browser ${how} is opened anew, once for each call`, async (t) => {
    const connections = closing(t);
    give(t, "fetch", () => async () => new Response(null, { status: 204 }));
    const device = await Device.open(definitionOf("grr"), await IndexedDbStore.open("device", null));
    const sender = new Sender(device.outbox, "https://example.com");
    const calls = [
      () => device.report(3, 1),
      () => device.report(3, 2),
      () => device.outbox.dropped(),
      async () => assert.equal(await sender.sendDue(), 2),
      () => device.withdraw(),
    ];
    for (const [number, call] of calls.entries()) {
      connections.close(close);
      await settled(call() as Promise<unknown>);
      assert.equal(connections.count(), number + 2);
    }
    await assert.rejects(device.report(3, 3), has("E-DEVICE-WITHDRAWN"));
  });
}

test("two calls at once open one connection; what a browser gives up is tried once more", async (t) => {
  const connections = closing(t);
  const device = await Device.open(definitionOf("grr"), await IndexedDbStore.open("device", null));
  connections.close(forceCloseDatabase);
  await settled(Promise.all([device.report(3, 1), device.outbox.waiting()]));
  assert.equal(connections.count(), 2);
  const { get } = IDBObjectStore.prototype;
  t.mock.method(IDBObjectStore.prototype, "get", function (this: IDBObjectStore, key: string) {
    t.mock.restoreAll();
    const request = get.call(this, key);
    request.addEventListener("success", () => this.transaction.abort());
    return request;
  });
  await settled(device.report(3, 2));
  assert.deepEqual([connections.count(), (await device.outbox.waiting()).length], [3, 2]);
});

test("where no other connection opens, the message says so", async (t) => {
  const connections = closing(t);
  const device = await Device.open(definitionOf("grr"), await IndexedDbStore.open("device", null));
  connections.close(forceCloseDatabase);
  const { indexedDB } = globalThis;
  give(t, "indexedDB", blocked);
  for (const call of [() => device.report(3, 1), () => device.withdraw()]) {
    await assert.rejects(settled(call() as Promise<unknown>), has("E-DEVICE-STORE", "opens no other: The operation is insecure.). Reload the page"));
  }
  give(t, "indexedDB", () => indexedDB);
  await settled(device.report(3, 1));
});

test("what is kept and is no state, or cannot be kept", async (t) => {
  const factory = browser(t);
  const store = await IndexedDbStore.open("device", null);
  for (const wrong of [0, "state", {}, new ArrayBuffer(99), new Uint8Array(0), new Uint8Array(99), [1, 2]]) {
    await raw(factory, wrong);
    await assert.rejects(settled(report(store)), has("E-DEVICE-STATE-DAMAGED"));
  }
  const before = await raw(factory);
  t.mock.method(IDBObjectStore.prototype, "put", blocked);
  await assert.rejects(settled(store.withdraw()), has("E-DEVICE-STORE", "insecure"));
  t.mock.restoreAll();
  await assert.rejects(settled(store.withdraw().then(() => store.update(() => { throw new RangeError("mine"); }))), RangeError);
  assert.notDeepEqual(await raw(factory), before);
});

test("a newer version of the program takes the database, and this one says so", async (t) => {
  const factory = browser(t);
  const store = await IndexedDbStore.open("device", null);
  await report(store);
  const request = factory.open("device", 2);
  await new Promise((done) => (request.onsuccess = done)); // blocked for ever unless the store lets go
  await assert.rejects(settled(report(store, 2)), has("E-DEVICE-STORE", "opens no other"));
});

test("a browser that gives a transaction up, such as for want of room", async (t) => {
  browser(t);
  const store = await IndexedDbStore.open("device", null);
  const first = await report(store);
  const { transaction } = IDBDatabase.prototype;
  const options: unknown[] = [];
  t.mock.method(IDBDatabase.prototype, "transaction", function (this: IDBDatabase, ...asked: any[]) {
    const found = transaction.apply(this, asked as any);
    options.push(asked[2]);
    queueMicrotask(() => found.abort());
    return found;
  });
  await assert.rejects(settled(report(store, 2)), has("E-DEVICE-STORE"));
  assert.deepEqual(options, [{ durability: "strict" }, { durability: "strict" }]);
  t.mock.restoreAll();
  assert.deepEqual(await report(store), first);
});

test("a browser has 30 s", async (t) => {
  browser(t);
  const timers = t.mock.method(globalThis, "setTimeout");
  const long = () => timers.mock.calls.map((one) => one.arguments[1]).filter((one) => (one ?? 0) >= 1000);
  const store = await IndexedDbStore.open("device", null);
  assert.deepEqual(long(), [30_000]);
  await store.update(() => ({ result: 1 }));
  assert.deepEqual(long(), [30_000, 30_000]);
});

test("a browser may take as long as it likes", async (t) => {
  browser(t);
  for (const timeout of [Infinity, 1e9, 3e6]) {
    const store = await settled(IndexedDbStore.open("device", null, { timeout }));
    await new Promise((resume) => setTimeout(resume, 5)); // a timer that is too long would fire after one millisecond
    const reporting = report(store);
    await settled(reporting);
    store.close();
  }
});

test("four at once take turns", async (t) => {
  browser(t);
  const stores = await Promise.all([0, 1, 2, 3].map(() => IndexedDbStore.open("device", null)));
  const reports = await Promise.all(stores.map(async (store, value) => (await Device.open(definitionOf("grr"), store)).report(value, 1)));
  assert.equal(new Set(reports.map(String)).size, 1);
});

test("a system without random bytes", async (t) => {
  browser(t);
  const store = await IndexedDbStore.open("device", null);
  give(t, "crypto", () => undefined);
  await assert.rejects(settled(report(store)), has("E-DEVICE-RANDOMNESS"));
});
