/**
 * Damage of all that a device reads back: every flipped bit, every cut and every loss of what Node's files, IndexedDB and
 * localStorage hold is noticed or harmless. Never is another report sent, is a permanent answer drawn again, or is an
 * epoch reported twice.
 */

import assert from "node:assert/strict";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { IDBFactory } from "fake-indexeddb";
import { equal, toHex } from "../src/bytes.js";
import { Counter } from "../src/counter.js";
import { DeviceError } from "../src/errors.js";
import { FileStore } from "../src/file_store.js";
import { newState, packState, unpackState, type Waiting } from "../src/state.js";
import { IndexedDbStore, type Store } from "../src/store.js";
import { open, SECRET } from "./devices.js";

const EPOCHS = 3;
const NAME = "l_grr";

/** What a device that is not damaged says after its life: what waits, its last report, and its next one. */
interface Sound {
  waiting: string[];
  last: string;
  next: string;
}

const textOf = ({ due, fullDigest, epoch, report }: Waiting): string => `${due} ${fullDigest} ${epoch} ${toHex(report)}`;

const clock = () => 1_767_240_000.5;

/** A short life: reports, of which one is acknowledged. */
async function live(store: Store): Promise<void> {
  await store.update((state) => ({ keep: { ...(state ?? newState()), secret: SECRET }, result: undefined }));
  const device = await open(NAME, store, { clock });
  for (let epoch = 0; epoch < EPOCHS; epoch++) await device.report(4, epoch);
  await device.outbox.acknowledge((await device.outbox.waiting())[0]);
}

async function soundOf(store: Store): Promise<Sound> {
  const device = await open(NAME, store, { clock });
  const waiting = (await device.outbox.waiting()).map(textOf);
  const last = toHex(await device.report(4, EPOCHS - 1));
  return { waiting, last, next: toHex(await device.report(4, EPOCHS)) };
}

type Outcome = "noticed" | "dropped" | "harmless";

const NOTICED = ["STATE-DAMAGED", "STATE-LOST", "STATE-OLDER", "STATE-VERSION", "SENTINEL-DAMAGED"];

/** What a device makes of damage; fails where it is none of the three. */
async function outcome(store: Store, { waiting, last, next }: Sound, what: string): Promise<Outcome> {
  let device;
  try {
    device = await open(NAME, store, { clock });
  } catch (error) {
    assert.ok(error instanceof DeviceError && NOTICED.includes(error.code.slice("E-DEVICE-".length)), `${what}: ${error}`);
    return "noticed";
  }
  const found = (await device.outbox.waiting()).map(textOf);
  const missing = waiting.length - found.length;
  assert.deepEqual(found, waiting.filter((one) => found.includes(one)), what); // these bytes, and no others, are sent
  assert.deepEqual(await device.outbox.dropped(), { full: 0, damaged: missing }, what);
  // Another value, so that a second draw would show; and an epoch that is over.
  assert.equal(toHex(await device.report(7, EPOCHS - 1)), last, what);
  await assert.rejects(device.report(4, EPOCHS - 2), (error: DeviceError) => error.code === "E-DEVICE-EPOCH");
  // Permanent answers, round and id are those of the device that was not damaged.
  assert.equal(toHex(await device.report(4, EPOCHS)), next, what);
  assert.deepEqual(await device.outbox.dropped(), { full: 0, damaged: missing }, what);
  assert.equal((await device.outbox.waiting()).length, found.length + 1, what);
  return missing ? "dropped" : "harmless";
}

/** Counts outcomes, for a line in the output. */
class Tally {
  readonly seen: Record<Outcome, number> = { noticed: 0, dropped: 0, harmless: 0 };
  add(one: Outcome): Outcome {
    this.seen[one]++;
    return one;
  }
  tell(t: TestContext, what: string): void {
    const { noticed, dropped, harmless } = this.seen;
    t.diagnostic(`${what}: ${noticed} noticed, ${dropped} dropped and counted, ${harmless} harmless`);
  }
}

function flipped(content: Uint8Array, bit: number): Uint8Array {
  const found = Uint8Array.from(content);
  found[bit >> 3] ^= 1 << (bit & 7);
  return found;
}

// --- files of Node

class Folder {
  readonly path: string;
  readonly state: Buffer;
  readonly sentinel: Buffer;

  private constructor(path: string) {
    this.path = path;
    this.state = fs.readFileSync(join(path, "state"));
    this.sentinel = fs.readFileSync(join(path, "sentinel"));
  }

  static async after(t: TestContext): Promise<[Folder, Sound]> {
    const above = fs.mkdtempSync(join(fs.existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "ldpbeam-"));
    t.after(() => fs.rmSync(above, { recursive: true }));
    const path = join(above, "device");
    await live(new FileStore(path));
    const folder = new Folder(path);
    return [folder, await soundOf(folder.store)];
  }

  get store(): FileStore {
    return new FileStore(this.path);
  }

  /** The files as they were, but for one; null removes it. */
  put(name?: string, content?: Uint8Array | null): void {
    for (const [one, whole] of [["state", this.state], ["sentinel", this.sentinel]] as const) {
      const put = one === name ? content! : whole;
      if (put) fs.writeFileSync(join(this.path, one), put);
      else fs.rmSync(join(this.path, one));
    }
  }
}

/** Where the reports that wait begin in a state. */
function reportsFrom(state: Buffer): number {
  return 42 + 36 * state.readUInt32LE(38) + state.readUInt32LE(34) + 32;
}

test("a folder: every bit of the state", { timeout: 300_000 }, async (t) => {
  const [folder, sound] = await Folder.after(t);
  const [tally, from] = [new Tally(), reportsFrom(folder.state)];
  assert.ok(from > 300 && folder.state.length - from > 100 && sound.waiting.length === EPOCHS - 1);
  for (let bit = 0; bit < 8 * folder.state.length; bit++) {
    folder.put("state", flipped(folder.state, bit));
    const found = tally.add(await outcome(folder.store, sound, `bit ${bit}`));
    assert.equal(found, bit < 8 * from ? "noticed" : "dropped", `bit ${bit}`);
  }
  tally.tell(t, `${8 * folder.state.length} bits of the state`);
});

test("a folder: every length of the state, and the lengths beyond it", { timeout: 120_000 }, async (t) => {
  const [folder, sound] = await Folder.after(t);
  const [tally, from] = [new Tally(), reportsFrom(folder.state)];
  for (let length = 0; length < folder.state.length; length++) {
    folder.put("state", folder.state.subarray(0, length));
    const found = tally.add(await outcome(folder.store, sound, `${length} bytes`));
    assert.equal(found, length < from ? "noticed" : "dropped", `${length} bytes`);
  }
  for (const more of [1, 36, 4096]) {
    folder.put("state", Buffer.concat([folder.state, Buffer.alloc(more)]));
    assert.equal(await outcome(folder.store, sound, `${more} more`), "noticed");
  }
  tally.tell(t, `${folder.state.length} lengths of the state`);
});

test("a folder: every bit and every length of the sentinel", { timeout: 300_000 }, async (t) => {
  const [folder, sound] = await Folder.after(t);
  const path = join(folder.path, "sentinel");
  const newest = new Counter(path);
  folder.put();
  const number = newest.read() as number;
  assert.ok(number > EPOCHS && folder.sentinel.length === 8192);
  // The device reads the number and nothing else, so most bits need no life of their own.
  const lives = new Tally();
  const read = async (content: Uint8Array, what: string, bytes: number[]): Promise<void> => {
    fs.writeFileSync(path, content);
    const found = new Counter(path).read();
    assert.ok(found instanceof DeviceError || found === number || found === number - 1, `${what}: ${found}`);
    if (!bytes.some((at) => at % 4096 < 40 || at % 512 === 0)) return;
    folder.put("sentinel", content);
    const expected = found instanceof DeviceError ? "noticed" : "harmless";
    assert.equal(lives.add(await outcome(folder.store, sound, what)), expected, what);
  };
  for (let bit = 0; bit < 8 * folder.sentinel.length; bit++) {
    await read(flipped(folder.sentinel, bit), `bit ${bit}`, [bit >> 3]);
  }
  for (let length = 0; length < folder.sentinel.length; length++) {
    await read(folder.sentinel.subarray(0, length), `${length} bytes`, [length]);
  }
  // Each bit of the number in both places at once.
  for (let bit = 0; bit < 8 * 40; bit++) {
    const both = flipped(flipped(folder.sentinel, bit), bit + 8 * 4096);
    folder.put("sentinel", both);
    assert.equal(await outcome(folder.store, sound, `bit ${bit} of both`), "noticed");
  }
  lives.tell(t, `${9 * folder.sentinel.length} flips and cuts of the sentinel, of which`);
});

test("a folder: every file that is gone, and files of different moments", async (t) => {
  const [folder, sound] = await Folder.after(t);
  folder.put("state", null);
  assert.equal(await outcome(folder.store, sound, "no state"), "noticed");
  assert.deepEqual(fs.readdirSync(folder.path), ["sentinel"]);
  folder.put("sentinel", null);
  assert.equal(await outcome(folder.store, sound, "no sentinel"), "harmless");
  folder.put();
  const moments = [[folder.state, folder.sentinel]];
  const device = await open(NAME, folder.store, { clock });
  for (let epoch = EPOCHS; epoch < EPOCHS + 4; epoch++) {
    await device.report(4, epoch);
    moments.push(["state", "sentinel"].map((name) => fs.readFileSync(join(folder.path, name))));
  }
  for (const [i, [state]] of moments.entries()) {
    for (const [j, [, sentinel]] of moments.entries()) {
      fs.writeFileSync(join(folder.path, "state"), state);
      fs.writeFileSync(join(folder.path, "sentinel"), sentinel);
      const asked = device.outbox.waiting();
      if (i >= j) await asked; // a process ended before it told the sentinel
      else await assert.rejects(asked, (error: DeviceError) => error.code === "E-DEVICE-STATE-OLDER");
    }
  }
});

// --- IndexedDB and localStorage, on a stand-in for a browser's

class Browser {
  readonly factory = new IDBFactory();
  readonly entries = new Map<string, string>();
  state!: Uint8Array;
  entry!: string;

  static async after(t: TestContext): Promise<[Browser, Sound]> {
    const made = new Browser();
    const storage = {
      getItem: (name: string) => made.entries.get(name) ?? null,
      setItem: (name: string, text: string) => void made.entries.set(name, text),
    };
    for (const [name, value] of [["indexedDB", made.factory], ["localStorage", storage]] as const) {
      Object.defineProperty(globalThis, name, { value, configurable: true });
      t.after(() => delete (globalThis as Record<string, unknown>)[name]);
    }
    const store = await IndexedDbStore.open("device");
    await live(store);
    [made.state, made.entry] = [await made.kept(), made.entries.get("device")!];
    const sound = await soundOf(store);
    store.close();
    return [made, sound];
  }

  /** The kept bytes, after `content` was put in their place. */
  async kept(content?: Uint8Array | null): Promise<Uint8Array> {
    const request = this.factory.open("device", 1);
    await new Promise((done) => (request.onsuccess = done));
    const transaction = request.result.transaction("state", "readwrite");
    const objects = transaction.objectStore("state");
    if (content) objects.put(content, "state");
    if (content === null) objects.delete("state");
    const reading = objects.get("state");
    await new Promise((done) => (transaction.oncomplete = done));
    request.result.close();
    return reading.result as Uint8Array;
  }

  async outcome(sound: Sound, what: string, state: Uint8Array | null, entry: string | null): Promise<Outcome> {
    await this.kept(state);
    if (entry === null) this.entries.clear();
    else this.entries.set("device", entry);
    const store = await IndexedDbStore.open("device");
    try {
      const found = await outcome(store, sound, what);
      if (found !== "noticed") assert.ok(store.guarded, what); // the entry is whole again
      return found;
    } finally {
      store.close();
    }
  }
}

test("a browser: every bit and every length of the record, and none", { timeout: 600_000 }, async (t) => {
  const [browser, sound] = await Browser.after(t);
  const { state, entry } = browser;
  const from = reportsFrom(Buffer.from(state));
  const flips = new Tally();
  for (let bit = 0; bit < 8 * state.length; bit++) {
    const found = flips.add(await browser.outcome(sound, `bit ${bit}`, flipped(state, bit), entry));
    assert.equal(found, bit < 8 * from ? "noticed" : "dropped", `bit ${bit}`);
  }
  flips.tell(t, `${8 * state.length} bits of the record`);
  const cuts = new Tally();
  for (let length = 0; length < state.length; length++) {
    const found = cuts.add(await browser.outcome(sound, `${length} bytes`, state.slice(0, length), entry));
    assert.equal(found, length < from ? "noticed" : "dropped", `${length} bytes`);
  }
  cuts.tell(t, `${state.length} lengths of the record`);
  assert.equal(await browser.outcome(sound, "no record", null, entry), "noticed");
});

test("a browser: every bit and every length of the entry in localStorage, and none", { timeout: 120_000 }, async (t) => {
  const [browser, sound] = await Browser.after(t);
  const { state, entry } = browser;
  assert.match(entry, /^5 [0-9a-f]{64}$/);
  const damaged: string[] = [];
  for (let at = 0; at < entry.length; at++) {
    damaged.push(entry.slice(0, at));
    for (let bit = 0; bit < 16; bit++) {
      const code = String.fromCharCode(entry.charCodeAt(at) ^ (1 << bit));
      damaged.push(entry.slice(0, at) + code + entry.slice(at + 1));
    }
  }
  for (const [i, text] of damaged.entries()) {
    assert.equal(await browser.outcome(sound, `entry ${i}`, state, text), "harmless", `entry ${i}`);
    // The state is gone as well: it was there, though nobody knows how often it changed.
    if (i % 17 < 2) assert.equal(await browser.outcome(sound, `entry ${i}`, null, text), "noticed", `entry ${i}`);
  }
  assert.equal(await browser.outcome(sound, "no entry", state, null), "harmless");
  t.diagnostic(`${damaged.length} flips and cuts of the entry: all harmless`);
});

// --- the bytes themselves

test("a report of another place, of another moment, or shown twice, is dropped", () => {
  const waiting = (epoch: number): Waiting => ({ due: epoch, fullDigest: "5a".repeat(32), epoch, report: Uint8Array.of(epoch, 7) });
  const state = (epochs: number[]) => Buffer.from(packState({ ...newState(), outbox: epochs.map(waiting) }, 9));
  const epochsIn = (content: Uint8Array): number[] => unpackState(content).state.outbox.map(({ epoch }) => epoch);
  const content = state([1, 2, 3]);
  const at = (place: number): number => content.length - 50 * (3 - place);
  const report = (from: Buffer, place: number): Buffer => Buffer.from(from.subarray(at(place), at(place) + 50));
  assert.deepEqual(epochsIn(content), [1, 2, 3]);
  const other = state([1, 8, 3]);
  for (const [one, place, left] of [
    [report(content, 1), 0, [2, 3]],
    [report(content, 0), 2, [1, 2]],
    [report(other, 1), 1, [1, 3]],
  ] as const) {
    const wrong = Buffer.from(content);
    one.copy(wrong, at(place));
    assert.deepEqual(epochsIn(wrong), left);
    assert.equal(unpackState(wrong).state.damaged, 1);
  }
  const exchanged = Buffer.concat([content.subarray(0, at(0)), report(content, 1), report(content, 0), report(content, 2)]);
  assert.deepEqual(epochsIn(exchanged), [3]);
});

test("what is kept comes back: large numbers, none, many reports", () => {
  const outbox = Array.from({ length: 300 }, (_, i) => ({
    due: i % 2 ? 2 ** 53 - 1 : 0,
    fullDigest: "0f".repeat(32),
    epoch: 2 ** 53 - 1 - i,
    report: new Uint8Array(i),
  }));
  const state = { ...newState(), outbox, dropped: 2 ** 40, damaged: 7, clock: 0 };
  for (const changes of [1, 2 ** 32, 2 ** 53 - 1]) {
    const found = unpackState(packState(state, changes));
    assert.deepEqual(found, { state, changes });
  }
  const version = (error: unknown) => error instanceof DeviceError && error.code === "E-DEVICE-STATE-VERSION";
  assert.throws(() => unpackState(packState(state, 1, 2)), version);
  // A part of a larger buffer, as a browser may give it.
  const content = packState(state, 3);
  const within = new Uint8Array(content.length + 11);
  within.set(content, 11);
  assert.deepEqual(unpackState(within.subarray(11)), { state, changes: 3 });
  assert.ok(equal(content, within.subarray(11)) && !equal(content, within));
});
