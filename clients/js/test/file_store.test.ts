/** The state in a folder: damage is refused, loss is noticed, older copies answer alike, processes take turns. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { toHex } from "../src/bytes.js";
import { Counter } from "../src/counter.js";
import { DeviceError } from "../src/errors.js";
import { FileStore } from "../src/file_store.js";
import { unpackState } from "../src/state.js";
import { open, stateOf } from "./devices.js";

const REPORTER = fileURLToPath(new URL("reporter.js", import.meta.url));

function folderOf(t: TestContext, above = tmpdir()): string {
  const folder = fs.mkdtempSync(join(above, "ldpbeam-"));
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

test("an older copy is refused; without the sentinel it gives the same bytes", async (t) => {
  const folder = folderOf(t);
  const [path, sentinel] = [join(folder, "state"), join(folder, "sentinel")];
  const device = await open("loloha_linear", new FileStore(folder));
  const older = fs.readFileSync(path);
  const before = [];
  for (let epoch = 0; epoch < 8; epoch++) before.push(toHex(await device.report(epoch, epoch)));
  fs.writeFileSync(path, older);
  await assert.rejects(device.report(1, 8), has("E-DEVICE-STATE-OLDER"));
  await assert.rejects(device.outbox.waiting(), has("E-DEVICE-STATE-OLDER"));
  await assert.rejects(open("loloha_linear", new FileStore(folder)), has("E-DEVICE-STATE-OLDER"));
  assert.deepEqual(fs.readFileSync(path), older);
  fs.rmSync(sentinel);
  const again = await open("loloha_linear", new FileStore(folder));
  for (let epoch = 0; epoch < 8; epoch++) assert.equal(toHex(await again.report(epoch, epoch)), before[epoch]);
});

/** Replaces functions of node:fs while something runs. */
async function with_(changes: Partial<typeof fs>, act: () => Promise<void>): Promise<void> {
  const real = Object.fromEntries(Object.keys(changes).map((name) => [name, fs[name as keyof typeof fs]]));
  Object.assign(fs, changes);
  syncBuiltinESMExports();
  try {
    await act();
  } finally {
    Object.assign(fs, real);
    syncBuiltinESMExports();
  }
}

const CALLS = ["openSync", "writeSync", "fsyncSync", "renameSync", "closeSync", "readdirSync", "writeFileSync", "readFileSync", "rmSync"] as const;

for (const [what, killed] of [["a disk that refuses", false], ["a process that ends", true]] as const) {
  test(`${what}, at each call: no report, nothing unfinished afterwards, and one report of the epoch`, async (t) => {
    const real = { ...fs };
    const folder = folderOf(t);
    const store = new FileStore(folder);
    const device = await open("l_grr", store);
    let failures = 0;
    for (let epoch = 0; ; epoch++) {
      let calls = 0;
      const fails = (name: (typeof CALLS)[number]) => (...rest: unknown[]) => {
        const call = calls++;
        if (String(rest[0]).startsWith("/proc/") || (killed ? call < epoch : call !== epoch)) return (real[name] as any)(...rest);
        throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
      };
      const changes = Object.fromEntries(CALLS.map((name) => [name, fails(name)]));
      let failed = false;
      await with_(changes, async () => {
        failed = await device.report(1, epoch).then(() => false, has("E-DEVICE-STORE"));
      });
      if (!failed && calls <= epoch) break;
      failures += Number(failed);
      if (!killed) assert.ok(fs.readdirSync(folder).every((name) => !name.endsWith(".tmp")), `call ${epoch}`);
      // Its process lives, and would have the folder for ever.
      for (const name of fs.readdirSync(folder)) if (name.startsWith("claim-")) fs.rmSync(join(folder, name));
      const kept = (await stateOf(store)).outbox.find((one) => one.epoch === epoch)?.report;
      const report = await device.report(2, epoch);
      assert.deepEqual(report, kept ?? report);
      assert.deepEqual(fs.readdirSync(folder).sort(), ["sentinel", "state"], `call ${epoch}`);
      const waiting = await device.outbox.waiting();
      assert.deepEqual(waiting.map((one) => one.epoch), Array.from({ length: epoch + 1 }, (_, i) => i));
    }
    assert.ok(failures >= 15, `${failures} calls`);
    t.diagnostic(`${failures} calls`);
  });
}

test("a new number that is cut off leaves the one before, of every file of a counter", async (t) => {
  const path = folderOf(t);
  new Counter(path).write(1);
  for (let number = 2; number < 7; number++) {
    const before = fs.readFileSync(path);
    for (let cut = 0; cut <= 40; cut++) {
      fs.writeFileSync(path, before);
      const counter = new Counter(path);
      assert.equal(counter.read(), number - 1);
      const writeSync = ((file: number, content: Uint8Array, ...[at, , from]: number[]): number => {
        real.writeSync(file, content, at, cut, from);
        throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
      }) as typeof fs.writeSync;
      const real = { ...fs };
      await with_({ writeSync }, async () => assert.throws(() => counter.write(number), /EIO/));
      assert.equal(new Counter(path).read(), cut === 40 ? number : number - 1, `${cut} bytes of ${number}`);
    }
  }
});

test("a link, a folder or a pipe in the place of a file is refused, and what it points to is left alone", async (t) => {
  const folder = folderOf(t);
  const device = await open("l_grr", new FileStore(folder));
  for (const name of ["state", "sentinel"]) {
    const [path, aside] = [join(folder, name), join(folder, "..", name)];
    fs.renameSync(path, aside);
    const content = fs.readFileSync(aside);
    const refused = async (what: string): Promise<void> => {
      for (const act of [() => device.report(1, 9), () => device.outbox.waiting(), () => device.withdraw(), () => open("l_grr", new FileStore(folder))]) {
        await assert.rejects(act() as Promise<unknown>, has("E-DISK-LINK"), `${name}: ${what}`);
      }
      assert.deepEqual(fs.readFileSync(aside), content);
      assert.ok(!fs.lstatSync(path).isFile());
      fs.rmSync(path, { recursive: true });
    };
    fs.symlinkSync(aside, path);
    await refused("a link");
    fs.symlinkSync(join(folder, "..", "nothing"), path);
    await refused("a link to nothing");
    assert.ok(!fs.existsSync(join(folder, "..", "nothing")));
    fs.mkdirSync(path);
    await refused("a folder");
    assert.equal(spawnSync("mkfifo", [path]).status, 0);
    await refused("a pipe");
    fs.renameSync(aside, path);
  }
  await device.report(1, 9);
});

test("a file that has the name of an unfinished one already is never opened", async (t) => {
  const folder = folderOf(t);
  const apart = join(folder, "..", "apart");
  const victim = join(folder, "..", "victim");
  fs.mkdirSync(apart);
  fs.writeFileSync(victim, "mine");
  t.mock.method(globalThis.crypto, "getRandomValues", (bytes: Uint8Array) => bytes.fill(0x5a));
  const unfinished = join(apart, "sentinel.5a5a5a5a.tmp");
  for (const make of [() => fs.symlinkSync(victim, unfinished), () => fs.linkSync(victim, unfinished)]) {
    make();
    await assert.rejects(open("l_grr", new FileStore(folder, join(apart, "sentinel"))), has("E-DEVICE-STORE"));
    assert.deepEqual([fs.readFileSync(victim, "utf-8"), fs.readdirSync(apart).length], ["mine", 1]);
    fs.rmSync(unfinished);
  }
  await open("l_grr", new FileStore(folder, join(apart, "sentinel")));
  t.mock.restoreAll();
});

test("names of unfinished files are random, and what a process left is removed in the next turn", async (t) => {
  const folder = folderOf(t);
  const device = await open("l_grr", new FileStore(folder));
  const names = new Set<string>();
  const { renameSync } = fs;
  const noted: typeof renameSync = (from, to) => {
    names.add(String(from).slice(folder.length + 1));
    assert.equal(fs.statSync(from).mode & 0o777, 0o600);
    renameSync(from, to);
  };
  await with_({ renameSync: noted }, async () => {
    for (let epoch = 0; epoch < 20; epoch++) await device.report(1, epoch);
  });
  assert.equal(names.size, 20);
  for (const name of names) assert.match(name, /^state\.[0-9a-f]{8}\.tmp$/);
  const own = ["state.0123abcd.tmp", "sentinel.0123abcd.tmp"];
  const others = ["state.0123abc.tmp", "state.0123abcd.tmp.bak", "my.state.0123abcd.tmp", "mystate.0123abcd.tmp"];
  for (const name of [...own, ...others]) fs.writeFileSync(join(folder, name), "");
  await device.outbox.waiting();
  assert.deepEqual(fs.readdirSync(folder).sort(), [...others, "sentinel", "state"].sort());
});

/** All bytes of all files below a folder. */
function bytesBelow(folder: string): Buffer {
  const names = fs.readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)));
  return Buffer.concat(names.filter((name) => fs.statSync(name).isFile()).map((name) => fs.readFileSync(name)));
}

test("withdrawal leaves no secret and no report in any file, whatever lies there; and it lasts", async (t) => {
  const damages: [string, (path: string, older: Buffer) => void][] = [
    ["a sound state", () => undefined],
    ["a damaged state", (path) => fs.writeFileSync(join(path, "state"), fs.readFileSync(join(path, "state")).fill(9, 60, 70))],
    ["a state cut short", (path) => fs.truncateSync(join(path, "state"), 50)],
    ["no state", (path) => fs.rmSync(join(path, "state"))],
    ["an older state", (path, older) => fs.writeFileSync(join(path, "state"), older)],
    ["a damaged sentinel", (path) => fs.writeFileSync(join(path, "sentinel"), Buffer.alloc(8192, 3))],
    ["no sentinel", (path) => fs.rmSync(join(path, "sentinel"))],
    ["an unfinished file", (path) => fs.copyFileSync(join(path, "state"), join(path, "state.0123abcd.tmp"))],
  ];
  for (const [what, damage] of damages) {
    const folder = folderOf(t);
    const store = new FileStore(folder);
    const device = await open("l_grr", store);
    await device.report(1, 0);
    const older = fs.readFileSync(join(folder, "state"));
    for (let epoch = 1; epoch < 4; epoch++) await device.report(1, epoch);
    const { secret, outbox } = await stateOf(store);
    const texts = [secret, ...outbox.map(({ report }) => report)].flatMap((one) => [Buffer.from(one), toHex(one)]);
    assert.equal(texts.length, 10);
    for (const text of [texts[0], texts[1], texts[2], texts[9]].slice(1)) assert.ok(bytesBelow(folder).includes(text));
    const sound = fs.readFileSync(join(folder, "state"));
    damage(folder, older);
    await device.withdraw();
    for (const text of texts) assert.ok(!bytesBelow(folder).includes(text), what);
    assert.deepEqual(fs.readdirSync(folder).sort(), ["sentinel", "state"], what);
    assert.equal(fs.statSync(join(folder, "state")).mode & 0o777, 0o600);
    await assert.rejects(device.report(1, 9), has("E-DEVICE-WITHDRAWN"), what);
    await assert.rejects(open("grr", new FileStore(folder)), has("E-DEVICE-WITHDRAWN"), what);
    assert.deepEqual(await device.outbox.waiting(), []);
    await device.withdraw();
    // A copy from before does not undo it.
    for (const copy of [sound, older]) {
      fs.writeFileSync(join(folder, "state"), copy);
      const known = ["no sentinel", "a damaged sentinel"].includes(what);
      if (known && copy === sound) continue; // the number that it had is forgotten
      await assert.rejects(open("grr", new FileStore(folder)), has("E-DEVICE-STATE-OLDER"), what);
    }
  }
});

test("a turn that cannot be given back is an error of the device, and the report stays the same", async (t) => {
  const folder = folderOf(t);
  const device = await open("l_grr", new FileStore(folder));
  const rmSync = () => {
    throw Object.assign(new Error("EACCES: permission denied"), { code: "EACCES" });
  };
  await with_({ rmSync }, () => assert.rejects(device.report(1, 1), has("E-DEVICE-STORE")));
  const kept = (await unpackState(fs.readFileSync(join(folder, "state")))).state.outbox[0].report;
  for (const name of fs.readdirSync(folder)) if (name.startsWith("claim-")) fs.rmSync(join(folder, name));
  assert.deepEqual(await device.report(2, 1), kept);
});

/** What a program asks of the disk while it acts, in order; names without their folder. */
async function asked(act: () => Promise<unknown>): Promise<string[]> {
  const real = { ...fs };
  const names = new Map<number, string>();
  const seen: string[] = [];
  const nameOf = (path: fs.PathLike): string => String(path).split("/").pop()!.replace(/[0-9a-f]{8}(?=\.tmp$)/, "*");
  const openSync = ((path: fs.PathLike, ...rest: [fs.OpenMode, fs.Mode?]) => {
    const file = real.openSync(path, ...rest);
    names.set(file, nameOf(path));
    return file;
  }) as typeof fs.openSync;
  const writeSync = ((file: number, content: Uint8Array, at: number, length: number, from: number) => {
    seen.push(`write ${names.get(file)}`);
    return real.writeSync(file, content, at, Math.min(length, 100), from); // a disk may take a part only
  }) as typeof fs.writeSync;
  const fsyncSync: typeof fs.fsyncSync = (file) => {
    seen.push(`fsync ${names.get(file)}`);
    real.fsyncSync(file);
  };
  const renameSync: typeof fs.renameSync = (from, to) => {
    seen.push(`rename ${nameOf(from)} to ${nameOf(to)}`);
    real.renameSync(from, to);
  };
  await with_({ openSync, writeSync, fsyncSync, renameSync }, async () => void (await act()));
  return seen.filter((one, i) => one !== seen[i - 1]);
}

test("a report leaves only when the disk has its state, by name", async (t) => {
  const folder = folderOf(t);
  const store = new FileStore(folder);
  const durable = ["write state.*.tmp", "fsync state.*.tmp", "rename state.*.tmp to state", "fsync device"];
  const first = await asked(() => open("l_grr", store));
  const begun = first.indexOf("write state.*.tmp");
  assert.deepEqual(first.slice(begun), [
    ...durable,
    ...["write sentinel.*.tmp", "fsync sentinel.*.tmp", "rename sentinel.*.tmp to sentinel", "fsync device"],
  ]);
  // The folder is where it is before there is something to lose; each one above it, on this disk.
  const above = folder.split("/").slice(0, -1);
  const { dev } = fs.statSync(folder);
  while (above.length && fs.statSync(above.join("/") || "/").dev === dev) {
    assert.ok(first.slice(0, begun).includes(`fsync ${above.pop()}`), String(first));
  }
  if (fs.existsSync("/dev/shm") && fs.statSync("/dev/shm").dev !== fs.statSync("/dev").dev) {
    const elsewhere = await asked(() => open("l_grr", new FileStore(folderOf(t, "/dev/shm"))));
    assert.ok(elsewhere.includes("fsync shm") && !elsewhere.includes("fsync dev")); // no disk but the folder's
  }
  const device = await open("l_grr", store);
  assert.deepEqual(await asked(() => device.report(1, 1)), [...durable, "write sentinel"]);
  assert.deepEqual(await asked(() => device.report(1, 1)), []);
  // Written by another process, which ended before the last steps.
  fs.copyFileSync(join(folder, "sentinel"), join(folder, "..", "sentinel"));
  await device.report(1, 2);
  fs.copyFileSync(join(folder, "..", "sentinel"), join(folder, "sentinel"));
  assert.deepEqual(await asked(async () => (await open("l_grr", new FileStore(folder))).report(1, 2)), ["fsync device", "write sentinel"]);
  assert.deepEqual(await asked(() => device.report(1, 2)), []);
});

test("a sentinel that lies apart is where it is, and folders of others above are left to them", async (t) => {
  const above = join(folderOf(t), "..");
  const [folder, apart] = [join(above, "device"), join(above, "one", "two", "sentinel")];
  const calls = await asked(() => open("l_grr", new FileStore(folder, apart)));
  assert.ok(calls.indexOf("fsync one") >= 0 && calls.indexOf("fsync one") < calls.indexOf("write state.*.tmp"), String(calls));
  assert.equal(fs.statSync(join(above, "one", "two")).mode & 0o777, 0o700);
  const device = await open("l_grr", new FileStore(folder, apart));
  fs.rmSync(folder, { recursive: true });
  const made = await asked(() => device.withdraw()); // the folder is new
  assert.ok(made.indexOf(`fsync ${basename(above)}`) >= 0, String(made));
  await assert.rejects(open("l_grr", new FileStore(folder, apart)), has("E-DEVICE-WITHDRAWN"));
  fs.rmSync(folder, { recursive: true });
  fs.rmSync(apart);
  await open("l_grr", new FileStore(folder, apart));
  // What lies in the folder under the sentinel's name is not of the sentinel.
  fs.writeFileSync(join(folder, "sentinel.0123abcd.tmp"), "");
  await open("l_grr", new FileStore(folder, apart));
  assert.deepEqual(fs.readdirSync(folder).sort(), ["sentinel.0123abcd.tmp", "state"]);
  const real = { ...fs };
  for (const [code, works] of [["EACCES", true], ["EIO", false]] as const) {
    const openSync = ((path: fs.PathLike, ...rest: [fs.OpenMode, fs.Mode?]) => {
      if (String(path) === above) throw Object.assign(new Error(code), { code });
      return real.openSync(path, ...rest);
    }) as typeof fs.openSync;
    await with_({ openSync }, async () => {
      const opening = open("l_grr", new FileStore(join(above, code)));
      if (works) await opening;
      else await assert.rejects(opening, has("E-DEVICE-STORE"));
    });
  }
});

test("a look at a folder without a state leaves nothing that tells of one", async (t) => {
  const folder = folderOf(t);
  assert.equal(await new FileStore(folder).update((state) => ({ result: state })), null);
  assert.deepEqual(fs.readdirSync(folder), []);
  await open("l_grr", new FileStore(folder));
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

test("kills while the slice changes: one permanent answer in all slices", { timeout: 60_000 }, async (t) => {
  const folder = folderOf(t);
  const seen = new Map<number, string>();
  for (let kill = 0; kill < 6; kill++) {
    const { child, lines, printed, ended } = start(t, folder, "dbitflip_pm:5", Math.max(0, ...seen.keys()));
    await Promise.race([printed, ended]);
    await new Promise((resume) => setTimeout(resume, 10 * kill));
    child.kill("SIGKILL");
    await ended;
    merge(seen, lines);
  }
  const reports = [...seen.values()];
  assert.equal(new Set(reports.map((report) => report.slice(-8))).size, 1, "length and bytes of the payload");
  assert.equal(new Set(reports.map((report) => report.slice(0, 18))).size, 2);
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
