/** The state in a folder: damage is refused, loss is noticed, older copies answer alike, processes take turns. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { toHex } from "../src/bytes.js";
import { DeviceError } from "../src/errors.js";
import { FileStore } from "../src/file_store.js";
import { packState, unpackState } from "../src/state.js";
import { open, stateOf } from "./devices.js";

const REPORTER = fileURLToPath(new URL("reporter.js", import.meta.url));

function folderOf(t: TestContext): string {
  const folder = fs.mkdtempSync(join(tmpdir(), "ldpbeam-"));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  return join(folder, "device");
}

const has = (code: string) => (error: unknown) => error instanceof DeviceError && error.code === code;

test("a new state, its sentinel and nothing else; only for the owner", async (t) => {
  const folder = folderOf(t);
  const device = await open("l_grr", new FileStore(folder));
  await device.report(1, 1);
  assert.deepEqual(fs.readdirSync(folder).sort(), ["sentinel", "state"]);
  assert.equal(fs.statSync(folder).mode & 0o777, 0o700);
  assert.equal(fs.statSync(join(folder, "state")).mode & 0o777, 0o600);
});

test("every flipped bit, and every cut, is refused", async (t) => {
  const folder = folderOf(t);
  const path = join(folder, "state");
  const device = await open("l_grr", new FileStore(folder), { outbox: 2 });
  for (let epoch = 0; epoch < 3; epoch++) await device.report(1, epoch);
  const sound = fs.readFileSync(path);
  assert.ok(sound.length > 500 && sound.length < 4096);
  for (let bit = 0; bit < 8 * sound.length; bit++) {
    const damaged = Buffer.from(sound);
    damaged[bit >> 3] ^= 1 << (bit & 7);
    assert.throws(() => unpackState(damaged), has("E-DEVICE-STATE-DAMAGED"), `bit ${bit}`);
  }
  for (let length = 0; length < sound.length; length++) {
    assert.throws(() => unpackState(sound.subarray(0, length)), has("E-DEVICE-STATE-DAMAGED"));
  }
  assert.throws(() => unpackState(Buffer.concat([sound, Buffer.of(0)])), has("E-DEVICE-STATE-DAMAGED"));
  // Through the device, on the disk: refused, and left as it is.
  for (const at of [3, 25, 100, sound.length - 1]) {
    const damaged = Buffer.from(sound);
    damaged[at] ^= 16;
    fs.writeFileSync(path, damaged);
    await assert.rejects(open("l_grr", new FileStore(folder)), has("E-DEVICE-STATE-DAMAGED"));
    await assert.rejects(device.report(1, 9), has("E-DEVICE-STATE-DAMAGED"));
    assert.deepEqual(fs.readFileSync(path), damaged);
  }
  fs.writeFileSync(path, packState(unpackState(sound), 2));
  await assert.rejects(open("l_grr", new FileStore(folder)), has("E-DEVICE-STATE-VERSION"));
});

test("a lost state is noticed; a folder that never had one gets it", async (t) => {
  const folder = folderOf(t);
  const apart = join(folder, "..", "sentinel");
  await open("l_grr", new FileStore(folder, apart));
  assert.ok(fs.existsSync(apart));
  fs.rmSync(folder, { recursive: true });
  await assert.rejects(open("l_grr", new FileStore(folder, apart)), has("E-DEVICE-STATE-LOST"));
  assert.ok(!fs.existsSync(join(folder, "state")));
  fs.rmSync(apart);
  await open("l_grr", new FileStore(folder, apart));
  // A machine that stopped between state and sentinel.
  const secret = (await stateOf(new FileStore(folder, apart))).secret;
  fs.rmSync(apart);
  await open("l_grr", new FileStore(folder, apart));
  assert.ok(fs.existsSync(apart));
  assert.deepEqual((await stateOf(new FileStore(folder, apart))).secret, secret);
});

test("an older copy gives the same bytes", async (t) => {
  const folder = folderOf(t);
  const path = join(folder, "state");
  const device = await open("loloha_linear", new FileStore(folder));
  const older = fs.readFileSync(path);
  const before = [];
  for (let epoch = 0; epoch < 8; epoch++) before.push(toHex(await device.report(epoch, epoch)));
  fs.writeFileSync(path, older);
  const again = await open("loloha_linear", new FileStore(folder));
  for (let epoch = 0; epoch < 8; epoch++) assert.equal(toHex(await again.report(epoch, epoch)), before[epoch]);
});

test("a disk that refuses gives no report, and changes nothing", async (t) => {
  const folder = folderOf(t);
  const device = await open("l_grr", new FileStore(folder));
  const before = fs.readFileSync(join(folder, "state"));
  fs.mkdirSync(join(folder, "state.tmp"));
  await assert.rejects(device.report(1, 1), has("E-DEVICE-STORE"));
  assert.deepEqual(fs.readFileSync(join(folder, "state")), before);
  fs.rmdirSync(join(folder, "state.tmp"));
  await device.report(1, 1);
});

test("a turn that cannot be given back is an error of the device, and the report stays the same", async (t) => {
  const folder = folderOf(t);
  const device = await open("l_grr", new FileStore(folder));
  const real = fs.rmSync;
  fs.rmSync = () => {
    throw Object.assign(new Error("EACCES: permission denied"), { code: "EACCES" });
  };
  syncBuiltinESMExports();
  try {
    await assert.rejects(device.report(1, 1), has("E-DEVICE-STORE"));
  } finally {
    fs.rmSync = real;
    syncBuiltinESMExports();
  }
  const kept = (await unpackState(fs.readFileSync(join(folder, "state")))).outbox[0].report;
  for (const name of fs.readdirSync(folder)) if (name.startsWith("claim-")) fs.rmSync(join(folder, name));
  assert.deepEqual(await device.report(2, 1), kept);
});

/** What a program asks of the disk while it acts, in order; names without their folder. */
async function asked(act: () => Promise<unknown>): Promise<string[]> {
  const { openSync, writeSync, fsyncSync, renameSync } = fs;
  const real = { openSync, writeSync, fsyncSync, renameSync };
  const names = new Map<number, string>();
  const seen: string[] = [];
  const nameOf = (path: fs.PathLike): string => String(path).split("/").pop()!;
  fs.openSync = ((path: fs.PathLike, ...rest: [fs.OpenMode, fs.Mode?]) => {
    const file = real.openSync(path, ...rest);
    names.set(file, nameOf(path));
    return file;
  }) as typeof fs.openSync;
  fs.writeSync = ((file: number, content: Uint8Array, at: number) => {
    seen.push(`write ${names.get(file)}`);
    return real.writeSync(file, content, at, Math.min(content.length - at, 100)); // a disk may take a part only
  }) as typeof fs.writeSync;
  fs.fsyncSync = (file) => {
    seen.push(`fsync ${names.get(file)}`);
    real.fsyncSync(file);
  };
  fs.renameSync = (from, to) => {
    seen.push(`rename ${nameOf(from)} to ${nameOf(to)}`);
    real.renameSync(from, to);
  };
  syncBuiltinESMExports();
  try {
    await act();
  } finally {
    Object.assign(fs, real);
    syncBuiltinESMExports();
  }
  return seen.filter((one, i) => one !== seen[i - 1]);
}

test("a report leaves only when the disk has its state, by name", async (t) => {
  const folder = folderOf(t);
  const store = new FileStore(folder);
  const durable = ["write state.tmp", "fsync state.tmp", "rename state.tmp to state", "fsync device"];
  const first = await asked(() => open("l_grr", store));
  assert.deepEqual(first.slice(-7), [...durable, "fsync sentinel.tmp", "rename sentinel.tmp to sentinel", "fsync device"]);
  const device = await open("l_grr", store);
  assert.deepEqual(await asked(() => device.report(1, 1)), durable);
  assert.deepEqual(await asked(() => device.report(1, 1)), []);
  // Written by another process, which may have ended before the last step.
  const other = await open("l_grr", store);
  assert.deepEqual(await asked(async () => (await open("l_grr", new FileStore(folder))).report(1, 1)), ["fsync device"]);
  assert.deepEqual(await asked(() => other.report(1, 1)), []);
});

test("claims of processes that ended are removed, those of others are respected", async (t) => {
  const folder = folderOf(t);
  await open("l_grr", new FileStore(folder));
  const own = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf-8").slice(0, 8);
  const namespace = fs.readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
  const ended = [`claim-${own}-${namespace}-4194304-5-aa`, `claim-${own}-${namespace}-${process.pid}-5-bb`];
  for (const name of [...ended, `claim-00000000-${namespace}-1-1-cc`]) fs.writeFileSync(join(folder, name), "");
  await (await open("l_grr", new FileStore(folder))).report(1, 1);
  assert.deepEqual(fs.readdirSync(folder).sort(), ["sentinel", "state"]);
  const foreign = join(folder, `claim-${own}-1-1-1-dd`);
  fs.writeFileSync(foreign, "");
  let done = false;
  const waiting = open("l_grr", new FileStore(folder)).then(() => (done = true));
  await new Promise((resume) => setTimeout(resume, 200));
  assert.ok(!done);
  fs.rmSync(foreign);
  await waiting;
});

// --- processes

interface Line {
  epoch: number;
  report: string;
}

interface Started {
  child: ChildProcess;
  lines: Line[];
  /** When the first line has come. */
  printed: Promise<void>;
  ended: Promise<void>;
}

function start(t: TestContext, folder: string, name: string, first: number): Started {
  const arguments_ = [REPORTER, folder, name, String(first)];
  const child = spawn(process.execPath, arguments_, { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  const lines: Line[] = [];
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const printed = new Promise<void>((resolve) => {
    createInterface(child.stdout!).on("line", (line) => {
      if (line.endsWith("}")) lines.push(JSON.parse(line) as Line); // the last one may be cut
      resolve();
    });
  });
  return { child, lines, printed, ended };
}

/** Adds what was seen; an epoch that was seen before must have had the same bytes. */
function merge(seen: Map<number, string>, lines: Line[]): void {
  for (const { epoch, report } of lines) {
    assert.equal(seen.get(epoch) ?? report, report, `epoch ${epoch}`);
    seen.set(epoch, report);
  }
}

test("40 kills: no epoch has two reports, none that was seen is forgotten", { timeout: 240_000 }, async (t) => {
  const folder = folderOf(t);
  const seen = new Map<number, string>();
  let interrupted = 0;
  for (let kill = 0; kill < 40; kill++) {
    const from = Math.max(0, ...seen.keys());
    const { child, lines, printed, ended } = start(t, folder, "loloha_linear", from);
    // Half of them anywhere from its start on, half between two reports or in one.
    if (kill % 2) await Promise.race([printed, ended]);
    await new Promise((resume) => setTimeout(resume, kill % 2 ? 3 * kill : 10 * kill));
    child.kill("SIGKILL");
    await ended;
    merge(seen, lines);
    const state = fs.existsSync(join(folder, "state")) ? await stateOf(new FileStore(folder)) : null;
    const [entry] = state ? state.entries.values() : [];
    const last = entry && { epoch: entry.spans.at(-1)!.last, report: entry.spans.at(-1)!.report! };
    // What a process printed is in the state, with the bytes that it printed.
    if (seen.size) assert.ok(last.epoch >= Math.max(...seen.keys()));
    if (last && seen.has(last.epoch)) assert.equal(toHex(last.report), seen.get(last.epoch));
    if (last && !seen.has(last.epoch)) interrupted++;
    for (const one of state?.outbox ?? []) {
      assert.ok(one.epoch <= last.epoch);
      assert.equal(seen.get(one.epoch) ?? toHex(one.report), toHex(one.report));
      seen.set(one.epoch, toHex(one.report));
    }
  }
  assert.ok(seen.size > 10, `${seen.size} epochs`);
  t.diagnostic(`${seen.size} epochs, ${interrupted} times kept and not printed`);
  const secret = (await stateOf(new FileStore(folder))).secret;
  assert.equal(secret.length, 32);
});

test("three processes with different values: one report per epoch", { timeout: 120_000 }, async (t) => {
  const folder = folderOf(t);
  const all = [1, 2, 3].map((value) => start(t, folder, `grr:${value}`, 0));
  const seen = new Map<number, string>();
  const reporters = (epoch: number): number => all.filter(({ lines }) => lines.some((l) => l.epoch === epoch)).length;
  const shared = (): number[] => [...new Set(all.flatMap(({ lines }) => lines.map(({ epoch }) => epoch)))].filter(
    (epoch) => reporters(epoch) > 1,
  );
  // As long as it takes for each to have had its turns.
  const until = Date.now() + 90_000;
  while (all.some(({ lines }) => lines.length < 10) || shared().length < 5) {
    assert.ok(all.every(({ child }) => child.exitCode === null) && Date.now() < until, "each is to report");
    await new Promise((resume) => setTimeout(resume, 100));
  }
  for (const { child } of all) child.kill("SIGTERM");
  for (const { lines, ended } of all) {
    await ended;
    merge(seen, lines);
  }
  assert.ok(seen.size >= 10 && shared().length >= 5);
});
