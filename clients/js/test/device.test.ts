/** The rules of a device: one report per epoch, in order, the same bytes when asked again; labels; clocks. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "../src/bytes.js";
import { Device } from "../src/device.js";
import { parseDefinition } from "../src/definition.js";
import { DeviceError } from "../src/errors.js";
import { protocolOf } from "../src/protocols.js";
import { packState } from "../src/state.js";
import { MemoryStore } from "../src/store.js";
import { Clock, definitionOf, HOUR, open, ORIGIN, SECRET, stateOf, storeWith } from "./devices.js";
import { namesIn, Script } from "./support.js";

const refuses = (code: string) => (error: unknown) => {
  assert.ok(error instanceof DeviceError, String(error));
  assert.equal(error.code, code);
  assert.ok(error.message.endsWith(`[${code}]`));
  return true;
};

for (const name of namesIn("definitions")) {
  test(`${name}: an epoch has one report, whatever the value is by then`, async () => {
    const definition = definitionOf(name);
    const several = definition.attributes.length;
    const value = (v: number) => (definition.domain?.strings ? "abc".slice(v) : several ? Array(several).fill(v) : v);
    const store = await storeWith(SECRET);
    const device = await open(name, store);
    const first = toHex(await device.report(value(1), 3));
    assert.equal(toHex(await device.report(value(2), 3)), first);
    // Another program, and an older copy of the state: the same permanent answers, the same bytes.
    assert.equal(toHex(await (await open(name, store)).report(value(0), 3)), first);
    const older = await open(name, await storeWith(SECRET));
    assert.equal(toHex(await older.report(value(1), 3)), first);
    const next = toHex(await device.report(value(1), 4));
    assert.notEqual(next, first);
    assert.equal(next.length, first.length);
    await assert.rejects(device.report(value(1), 3), refuses("E-DEVICE-EPOCH"));
    // Another secret is another device.
    const other = await open(name, await storeWith(SECRET.map((byte) => byte ^ 1)));
    assert.notEqual(toHex(await other.report(value(1), 3)), first);
  });
}

test("what is permanent stays, what is fresh does not", async () => {
  const device = await open("dbitflip_pm", await storeWith(SECRET));
  const payloads = new Map<number, Set<string>>();
  for (let epoch = 0; epoch < 60; epoch++) {
    const value = epoch % 11;
    const payload = toHex((await device.report(value, epoch)).slice(-2));
    payloads.set(value, (payloads.get(value) ?? new Set()).add(payload));
  }
  for (const seen of payloads.values()) assert.equal(seen.size, 1);
  const fresh = await open("grr", await storeWith(SECRET));
  const seen = new Set<string>();
  for (let epoch = 0; epoch < 60; epoch++) seen.add(toHex((await fresh.report(5, epoch)).slice(-1)));
  assert.ok(seen.size > 3);
});

test("epochs of the clock, and clocks that go wrong", async () => {
  const clock = new Clock(ORIGIN + 5 * HOUR);
  const store = await storeWith(SECRET);
  const device = await open("l_grr", store, { clock: clock.read, maxJump: 100 * HOUR });
  assert.equal(device.epoch, 5);
  const first = toHex(await device.report(1));
  clock.seconds += HOUR - 0.001;
  assert.equal(toHex(await device.report(2)), first);
  clock.seconds += 0.001;
  assert.equal(device.epoch, 6);
  assert.notEqual(toHex(await device.report(1)), first);
  clock.seconds -= HOUR;
  await assert.rejects(device.report(1), refuses("E-DEVICE-EPOCH"));
  clock.seconds += 102 * HOUR;
  await assert.rejects(device.report(1), refuses("E-DEVICE-CLOCK"));
  await assert.rejects(device.report(1, 107), refuses("E-DEVICE-CLOCK"));
  clock.seconds = ORIGIN - 1;
  await assert.rejects(device.report(1), refuses("E-DEVICE-EPOCH"));
  clock.seconds = ORIGIN + 7 * HOUR;
  await device.report(1); // nothing of all that was kept
  for (const epoch of [-1, 1000, 0.5, NaN, 2 ** 60]) {
    await assert.rejects(device.report(1, epoch), refuses("E-DEVICE-EPOCH"));
  }
});

test("a clock that shows no number takes no device back", async () => {
  const clock = new Clock(ORIGIN + 500 * HOUR);
  const device = await open("l_grr", await storeWith(SECRET), { clock: clock.read });
  await device.report(1);
  clock.seconds = Number.NaN;
  await assert.rejects(device.report(1), refuses("E-DEVICE-EPOCH"));
  await assert.rejects(device.report(1, 5), refuses("E-DEVICE-EPOCH"));
});

test("bounds of the epochs, both sides", async () => {
  const device = await open("l_grr", await storeWith(SECRET), { maxJump: Infinity });
  for (const wrong of [-1, 1000]) await assert.rejects(device.report(1, wrong), refuses("E-DEVICE-EPOCH"));
  for (const right of [0, 999]) await device.report(1, right);
});

test("options that nobody gave", async () => {
  const clock = new Clock(ORIGIN);
  const store = await storeWith(SECRET);
  const definition = { ...definitionOf("l_grr"), epochs: { length_seconds: 86_400, origin_seconds: ORIGIN, count: 2000 } };
  const device = await Device.open(definition, store, { clock: clock.read });
  for (let epoch = 0; epoch < 258; epoch++, clock.seconds += 86_400) await device.report(1);
  const waiting = await device.outbox.waiting();
  assert.deepEqual([waiting.length, waiting[0].epoch, waiting[255].epoch], [256, 2, 257]);
  assert.deepEqual(waiting.map(({ epoch, due }) => due - ORIGIN - 86_400 * epoch), Array(256).fill(0));
  clock.seconds = ORIGIN + (257 + 400) * 86_400 + 1;
  await assert.rejects(device.report(1), refuses("E-DEVICE-CLOCK"));
  clock.seconds--;
  await device.report(1);
});

test("an explicit epoch leaves the remembered clock alone", async () => {
  const clock = new Clock(ORIGIN);
  const store = await storeWith(SECRET);
  const device = await open("l_grr", store, { clock: clock.read });
  await device.report(1, 3);
  assert.equal((await stateOf(store)).clock, null);
  clock.seconds = ORIGIN + 4 * HOUR + 0.7;
  await device.report(1);
  assert.equal((await stateOf(store)).clock, ORIGIN + 4 * HOUR);
});

test("values are numbers, labels or indices, and no error holds one", async () => {
  const definition = definitionOf("l_grr");
  const labels = Array.from({ length: 11 }, (_, i) => `label ${i}`);
  const plain = await Device.open(definition, await storeWith(SECRET));
  for (const wrong of [-1, 11, 1.5, NaN, "7654321", null, undefined, [1], {}, true] as any[]) {
    await assert.rejects(plain.report(wrong, 1), (error: Error) => {
      assert.ok(!error.message.includes("7654321") && !error.message.includes("1.5"));
      return refuses("E-DEVICE-VALUE")(error);
    });
  }
  const byIndex = toHex(await plain.report(4, 1));
  const named = { ...definition, domain: { ...definition.domain, labels } };
  const labelled = async (more: object) =>
    Device.open({ ...named, domain: { ...named.domain, ...more } }, await storeWith(SECRET));
  assert.equal(toHex(await (await labelled({})).report("label 4", 1)), byIndex);
  await assert.rejects((await labelled({})).report("label 11", 1), refuses("E-DEVICE-VALUE"));
  assert.equal(toHex(await (await labelled({ other: 4 })).report("label 11", 1)), byIndex);
  assert.equal(toHex(await (await labelled({ other: null })).report({ index: 4 }, 1)), byIndex);
  await assert.rejects((await labelled({ other: 4 })).report(4, 1), refuses("E-DEVICE-VALUE"));
});

test("a number of a range goes into its bucket, and the definition says which range", async () => {
  const definition = definitionOf("l_grr");
  const with_ = (more: object) => ({ ...definition, domain: { ...definition.domain, ...more } });
  const reported = async (value: any) => toHex(await (await Device.open(with_({ maximum: 8.25 }), await storeWith(SECRET))).report(value, 1));
  for (const [value, index] of [[0.75, 1], ["0.74", 0], [6, 8], [99, 10], [-3, 0]]) {
    assert.equal(await reported(value), await reported({ index }));
  }
  assert.notEqual(await reported(0.75), await reported(0.74));
  const labels = Array.from({ length: 11 }, (_, i) => `label ${i}`);
  for (const wrong of [{ maximum: 0 }, { maximum: -1 }, { maximum: "5" }, { maximum: Infinity }, { maximum: 5, labels }]) {
    await assert.rejects(Device.open(with_(wrong), await storeWith(SECRET)), refuses("E-DEVICE-DEFINITION"));
  }
});

test("attributes are given in order or by name", async () => {
  const store = () => storeWith(SECRET);
  const bySequence = toHex(await (await open("split_l_osue", await store())).report([3, "10", { index: 0 }], 1));
  assert.equal(toHex(await (await open("split_l_osue", await store())).report({ a1: 10, a0: 3, a2: 0 }, 1)), bySequence);
  const device = await open("split_l_osue", await store());
  for (const wrong of [3, [3], [3, 10], [3, 10, 1, 0], [3, 10, 11], { a0: 3 }, { a0: 3, a1: 10, a2: 1, a3: 1 }, { a0: 3, a1: 1, b: 1 }] as any[]) {
    await assert.rejects(device.report(wrong, 1), refuses("E-DEVICE-VALUE"));
  }
  const counters = await open("together_one_bit_rrpm", await store());
  await counters.report([5, 5, 0], 1);
  await assert.rejects(counters.report([5, 5, 1], 2), refuses("E-DEVICE-VALUE"));
});

test("a sampling device looks at one attribute only, for life", async () => {
  const device = await open("sample_of_different_sizes", await storeWith(SECRET));
  const attribute = (report: Uint8Array) => report[report.length - 3];
  const found = new Set<number>();
  for (let epoch = 0; epoch < 20; epoch++) found.add(attribute(await device.report([1, 1, 1], epoch)));
  assert.equal(found.size, 1);
  const drawn = new Set<number>();
  for (let i = 0; i < 60; i++) {
    const other = await open("sample_of_different_sizes", new MemoryStore());
    drawn.add(attribute(await other.report([1, 1, 1], 0)));
  }
  assert.deepEqual([...drawn].sort(), [0, 1, 2]);
});

test("several collections share a state, and not their draws", async () => {
  const store = await storeWith(SECRET);
  const [one, two] = [await open("l_grr", store), await open("loloha_affine", store)];
  await one.report(1, 5);
  await two.report(1, 2);
  assert.equal((await stateOf(store)).entries.size, 2);
  await assert.rejects(one.report(1, 4), refuses("E-DEVICE-EPOCH"));
  await two.report(1, 4);
  assert.equal((await stateOf(store)).outbox.length, 3);
});

test("the outbox holds the newest, and none where none is wanted", async () => {
  const store = await storeWith(SECRET);
  const clock = new Clock(ORIGIN);
  const device = await open("l_grr", store, { outbox: 3, clock: clock.read });
  for (let epoch = 0; epoch < 6; epoch++, clock.seconds += HOUR) {
    await device.report(1);
    const kept = [epoch - 2, epoch - 1, epoch].filter((one) => one >= 0);
    assert.deepEqual((await device.outbox.waiting()).map(({ epoch }) => epoch), kept);
  }
  const without = await open("grr", store, { outbox: 0 });
  await without.report(1, 0);
  assert.throws(() => without.outbox, refuses("E-DEVICE-OUTBOX"));
  assert.equal((await stateOf(store)).outbox.length, 3);
  assert.deepEqual(await device.outbox.dropped(), { full: 3, damaged: 0 });
  assert.deepEqual(await (await open("l_osue", new MemoryStore())).outbox.dropped(), { full: 0, damaged: 0 });
});

test("the oldest report is the one that was due first, and dropped first, of all collections", async () => {
  const store = await storeWith(SECRET);
  const clock = new Clock(ORIGIN + 9 * HOUR);
  const first = await open("l_grr", store, { outbox: 2, clock: clock.read });
  const second = await open("grr", store, { outbox: 2, clock: clock.read });
  for (const [device, epoch] of [[first, 8], [second, 3], [first, 9], [second, 4]] as const) {
    await device.report(1, epoch);
    clock.seconds += 60;
  }
  assert.deepEqual((await first.outbox.waiting()).map(({ epoch }) => epoch), [9, 4]);
});

test("what was made ahead of time is due once the device goes back, and nothing else is", async () => {
  const store = await storeWith(SECRET);
  const clock = new Clock(ORIGIN + 900 * HOUR + 60.5);
  const [device, other] = [await open("l_grr", store, { clock: clock.read, spread: Infinity }), await open("grr", store, { clock: clock.read })];
  await device.report(1);
  await other.report(1);
  const before = await stateOf(store);
  clock.seconds = ORIGIN + 10 * HOUR + 30.5;
  const back = await device.report(2);
  const after = (await stateOf(store)).outbox;
  const dueOf = (epoch: number, digest: string): number => after.find((one) => one.epoch === epoch && one.fullDigest === digest)!.due;
  const [early, others] = before.outbox;
  assert.equal(dueOf(900, early.fullDigest), ORIGIN + 10 * HOUR + 30);
  assert.equal(dueOf(900, others.fullDigest), others.due);
  assert.ok(dueOf(10, early.fullDigest) > ORIGIN + 10 * HOUR + 30);
  assert.deepEqual(after.find((one) => one.epoch === 10)!.report, back);
  assert.deepEqual(after.find((one) => one.epoch === 900)!.report, early.report);
  // What is due already stays due when it was.
  for (const epoch of [500, 12]) {
    clock.seconds = ORIGIN + epoch * HOUR;
    await device.report(3);
  }
  const dues = (await stateOf(store)).outbox.filter((one) => one.fullDigest === early.fullDigest && one.epoch >= 500);
  assert.deepEqual(dues.map(({ epoch, due }) => [epoch, due - ORIGIN]), [[900, 10 * HOUR + 30], [500, 12 * HOUR]]);
});

test("no epoch has two reports whatever clock and program do", async () => {
  let seed = 1;
  const draw = (count: number): number => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % count;
  };
  const DAY = 24 * HOUR;
  for (let life = 0; life < 5; life++) {
    const clock = new Clock(ORIGIN + 20 * DAY);
    const store = await storeWith(SECRET.map((byte) => byte ^ life));
    const device = await open("l_grr", store, { outbox: 0, clock: clock.read, maxJump: [2, 10, 400][draw(3)] * DAY });
    const left = new Map<number, string>();
    for (let i = 0; i < 600; i++) {
      clock.seconds += [0, 1, HOUR, HOUR, DAY, -HOUR, -DAY, -2 * DAY - 1, 10 * DAY, -12 * DAY][draw(10)];
      if (draw(50) === 0) clock.seconds = ORIGIN + draw(1000) * HOUR;
      const asked = draw(10) < 7 ? undefined : device.epoch + draw(61) - 30;
      const epoch = asked ?? device.epoch;
      try {
        const report = toHex(await device.report(draw(11), asked));
        assert.equal(left.get(epoch) ?? report, report);
        left.set(epoch, report);
      } catch (error) {
        assert.ok(error instanceof DeviceError && ["E-DEVICE-EPOCH", "E-DEVICE-CLOCK"].includes(error.code), String(error));
      }
      const [entry] = [...(await stateOf(store)).entries.values()];
      const spans = entry?.spans ?? [];
      assert.ok(spans.length <= 8);
      for (const one of left.keys()) assert.ok(spans.some(({ first, last }) => first <= one && one <= last));
    }
    assert.ok(left.size > 50);
  }
});

test("sending times are spread over the rest of the epoch, or less", async () => {
  const late = ORIGIN + 2 * HOUR + 1800.5;
  const dues: number[] = [];
  for (let i = 0; i < 200; i++) {
    const store = await storeWith(SECRET.map((byte) => byte ^ i));
    await (await open("l_grr", store, { clock: new Clock(late).read, spread: Infinity })).report(1);
    dues.push((await stateOf(store)).outbox[0].due - Math.floor(late));
  }
  // 200 uniform times of which the first or last tenth is empty: (9/10)^200 < 1e-9.
  assert.ok(Math.min(...dues) >= 0 && Math.min(...dues) < 180);
  assert.ok(Math.max(...dues) < 1800 && Math.max(...dues) >= 1620);
  const store = await storeWith(SECRET);
  await (await open("l_grr", store, { clock: new Clock(late).read })).report(1);
  await (await open("l_grr", store, { clock: new Clock(late).read, spread: Infinity })).report(1, 3);
  const [first, second] = (await stateOf(store)).outbox.map(({ due }) => due - Math.floor(late));
  assert.equal(first, 0);
  assert.ok(second < 5400);
  // The same share of less: of the spread, and of what is left of the epoch where that is less.
  const dueWithin = async (spread: number) => {
    const one = await storeWith(SECRET);
    await (await open("l_grr", one, { clock: new Clock(late).read, spread })).report(1);
    return (await stateOf(one)).outbox[0].due - Math.floor(late);
  };
  const whole = await dueWithin(Infinity);
  assert.equal(await dueWithin(1800), whole);
  assert.ok(Math.abs((await dueWithin(900)) - whole / 2) <= 1);
  assert.equal(await dueWithin(0.9), 0);
  for (const spread of [-1, Number.NaN]) await assert.rejects(open("l_grr", store, { spread }), RangeError);
});

test("a person who withdraws: nothing is reported, nothing is kept, no second life begins", async () => {
  const store = await storeWith(SECRET);
  const device = await open("l_grr", store);
  const other = await open("loloha_linear", store, { outbox: 0 });
  for (let epoch = 0; epoch < 3; epoch++) {
    await device.report(1, epoch);
    await other.report(1, epoch);
  }
  const [waiting] = await device.outbox.waiting();
  await other.withdraw();
  for (const one of [device, other]) {
    for (const epoch of [2, 3]) await assert.rejects(one.report(1, epoch), refuses("E-DEVICE-WITHDRAWN"));
  }
  for (const name of ["l_grr", "grr"]) await assert.rejects(open(name, store), refuses("E-DEVICE-WITHDRAWN"));
  assert.deepEqual(await device.outbox.waiting(), []);
  await device.outbox.acknowledge(waiting); // by a sender that was sending it
  const expected = { secret: new Uint8Array(0), clock: null, entries: new Map(), outbox: [], dropped: 0, damaged: 0, withdrawn: true };
  assert.deepEqual(await stateOf(store), expected);
  await device.withdraw();
  assert.deepEqual(await stateOf(store), expected);
});

test("nothing is drawn from an emptied store", async () => {
  const store = new MemoryStore();
  const device = await open("l_grr", store);
  await store.update(() => ({ keep: undefined as never, result: undefined }));
  await device.report(1, 1);
  const emptied = { update: async (change: any) => change(null).result, withdraw: async () => undefined };
  await assert.rejects((await open("l_grr", emptied)).report(1, 1), refuses("E-DEVICE-STATE-LOST"));
});

test("an affine multiplier that maps values alike is exchanged", () => {
  const protocol = protocolOf(parseDefinition(definitionOf("blh_affine")).protocol);
  const multiplier = (word: bigint) => {
    const script = new Script();
    script.give([word, 7n, 0n].map(String));
    return new DataView(protocol.payload([1], undefined, script).buffer).getBigUint64(0, true);
  };
  const [full, reach] = [1n << 64n, 1n << 13n];
  for (const word of [0n, 5n, reach - 1n, full - reach + 1n]) {
    assert.equal(multiplier(word), word ^ 0x9e3779b97f4a7c15n);
  }
  for (const word of [reach, full - reach, 1n << 40n]) assert.equal(multiplier(word), word);
});

test("a report costs little", async () => {
  const definition = definitionOf("l_osue");
  definition.domain.size = definition.protocol.domain_size = 1000;
  definition.protocol.payload_size = 125;
  const device = await Device.open(definition, await storeWith(SECRET), { outbox: 0 });
  await device.report(1, 0);
  const begun = process.cpuUsage();
  for (let epoch = 1; epoch <= 50; epoch++) await device.report(1, epoch);
  const { user, system } = process.cpuUsage(begun);
  assert.ok((user + system) / 50 < 50_000, "50 ms of CPU each, far above what it takes");
});

test("a state is small whatever the domain is", async () => {
  const store = await storeWith(SECRET);
  const device = await open("minutes_in_app", store, { outbox: 0 });
  for (let epoch = 0; epoch < 300; epoch++) await device.report(epoch, epoch);
  assert.ok(packState(await stateOf(store), 1).length < 512);
});
