/** A device in slices: its reports carry the slice's digest, and nothing else of it depends on the slice. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, toHex } from "../src/bytes.js";
import { parseDefinition } from "../src/definition.js";
import { Device } from "../src/device.js";
import { DeviceError } from "../src/errors.js";
import { digestOf } from "../src/slices.js";
import { MemoryStore } from "../src/store.js";
import { definitionOf, stateOf, storeWith } from "./devices.js";
import { jsonOf, namesIn } from "./support.js";

const refuses = (error: unknown): boolean =>
  error instanceof DeviceError && error.code === "E-DEVICE-SLICE" && !/Beta|beta|日本|Atlantis/.test(error.message);

for (const name of namesIn("slices")) {
  const { definition, digests, refused, secret, steps } = jsonOf(`slices/${name}.json`);

  test(`${name}: every digest, and every report, also asked again in another slice and by another program`, async () => {
    for (const { slice, digest } of digests) assert.equal(toHex(digestOf(parseDefinition(definition), slice)), digest);
    const store = await storeWith(fromHex(secret));
    for (const { epoch, value, slice, report } of steps) {
      const device = await Device.open(definition, store, { slice });
      assert.equal(toHex(await device.report(value, epoch)), report);
      for (const { slice: other } of steps) {
        assert.equal(toHex(await (await Device.open(definition, store)).report(value, epoch, other)), report);
      }
    }
    const { entries, outbox } = await stateOf(store);
    const keys = new Set([...entries.keys(), ...outbox.map(({ fullDigest }) => fullDigest)]);
    assert.deepEqual([outbox.length, ...keys], [4, definition.full_digest]);
  });

  test(`${name}: what is no slice is refused before anything happens`, async () => {
    const [{ value, slice }] = steps;
    const [store, empty] = [await storeWith(fromHex(secret)), new MemoryStore()];
    const device = await Device.open(definition, store);
    for (const one of refused) {
      if (one !== null) await assert.rejects(Device.open(definition, empty, { slice: one }), refuses);
      await assert.rejects(device.report(value, 1, one), refuses);
    }
    await assert.rejects((await Device.open(definitionOf(name), store)).report(value, 1, slice), refuses);
    assert.equal((await stateOf(store)).entries.size, 0);
    assert.equal(await stateOf(empty), null);
  });
}

test("a definition whose dimensions cannot be told apart is refused", () => {
  const [one, other] = [{ name: "a", labels: ["x"] }, { name: "a", labels: ["y"] }];
  for (const slices of [{}, [one, other], [{ name: "a" }], [{ labels: ["x"] }], [{ name: "a", labels: ["x", "x"] }]]) {
    assert.throws(() => parseDefinition({ ...definitionOf("l_grr"), slices }), /E-DEVICE-DEFINITION/);
  }
});
