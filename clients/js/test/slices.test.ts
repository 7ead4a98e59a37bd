/** A device in slices: its reports carry the slice's digest, and nothing else of it depends on the slice. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, toHex } from "../src/bytes.js";
import { parseDefinition } from "../src/definition.js";
import { Device } from "../src/device.js";
import { DeviceError } from "../src/errors.js";
import { digestOf } from "../src/slices.js";
import { MemoryStore } from "../src/store.js";
import { definitionOf, SECRET, stateOf, storeWith } from "./devices.js";
import { jsonOf, namesIn } from "./support.js";

const refused = (error: unknown): boolean => {
  assert.ok(error instanceof DeviceError && error.code === "E-DEVICE-SLICE", String(error));
  return !/Beta|beta|日本|Atlantis/.test(error.message);
};

for (const name of namesIn("slices")) {
  const { definition, digests, refused: wrong, devices } = jsonOf(`slices/${name}.json`);

  test(`${name}: the digest of every slice`, () => {
    for (const { slice, digest } of digests) assert.equal(toHex(digestOf(parseDefinition(definition), slice)), digest);
    assert.ok(digests.length >= 2);
  });

  test(`${name}: every report, also asked again in another slice and by another program`, async () => {
    for (const { secret, steps } of devices) {
      const store = await storeWith(fromHex(secret));
      for (const { epoch, value, slice, report } of steps) {
        const device = await Device.open(definition, store, { slice });
        assert.equal(toHex(await device.report(value, epoch)), report);
        const other = await Device.open(definition, store, { slice: devices[0].steps[0].slice });
        assert.equal(toHex(await other.report(value, epoch)), report);
        assert.equal(toHex(await other.report(value, epoch, devices[0].steps[1].slice)), report);
      }
      const { entries, outbox } = await stateOf(store);
      const keys = [...entries.keys(), ...outbox.map(({ fullDigest }) => fullDigest)];
      assert.deepEqual([...new Set(keys)], [definition.full_digest]);
      // Without slices the device is as it was, but for the digest.
      const plain = await Device.open(definitionOf(name), await storeWith(fromHex(secret)));
      for (const { epoch, value, report } of steps) {
        assert.equal(toHex(await plain.report(value, epoch)).slice(18), report.slice(18));
      }
    }
  });

  test(`${name}: what is no slice is refused before anything happens`, async () => {
    const store = await storeWith(SECRET);
    const device = await Device.open(definition, store);
    const { value, slice } = devices[0].steps[0];
    for (const one of wrong) {
      const empty = new MemoryStore();
      if (one !== null) await assert.rejects(Device.open(definition, empty, { slice: one }), refused);
      await empty.update((state) => ({ result: assert.equal(state, null) }));
      await assert.rejects(device.report(value, 1, one), refused);
    }
    assert.equal((await stateOf(store)).entries.size, 0);
    assert.equal(toHex(await device.report(value, 0, slice)), toHex(await device.report(value, 0, slice)));
    await assert.rejects((await Device.open(definitionOf(name), store)).report(value, 1, slice), refused);
  });
}

test("a definition whose dimensions cannot be told apart is refused", () => {
  const [one, other] = [{ name: "a", labels: ["x"] }, { name: "a", labels: ["y"] }];
  for (const slices of [{}, [1], [one, other], [{ name: "a" }], [{ labels: ["x"] }], [{ name: "a", labels: [] }], [{ name: "a", labels: ["x", "x"] }]]) {
    assert.throws(() => parseDefinition({ ...definitionOf("l_grr"), slices }), /E-DEVICE-DEFINITION/);
  }
});
