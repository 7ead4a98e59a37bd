/** The derived vectors: from a secret, epochs and values to the bytes of reports, as the Python device sends them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, toHex } from "../src/bytes.js";
import { Device } from "../src/device.js";
import { Derivation, Purpose } from "../src/randomness.js";
import { definitionOf, storeWith } from "./devices.js";
import { jsonOf, namesIn } from "./support.js";

interface Step {
  epoch: number;
  value: number | number[];
  report: string;
  sending_word: string;
}

const names = namesIn("derived").filter((name) => name !== "streams");

for (const name of names) {
  test(`${name}: every report`, async () => {
    const vector = jsonOf(`derived/${name}.json`);
    assert.equal(definitionOf(name).full_digest, vector.full_digest);
    let steps = 0;
    for (const { secret, steps: history } of vector.devices as { secret: string; steps: Step[] }[]) {
      const device = await Device.open(definitionOf(name), await storeWith(fromHex(secret)));
      const derivation = new Derivation(fromHex(secret), fromHex(vector.full_digest));
      for (const { epoch, value, report, sending_word } of history) {
        assert.equal(toHex(await device.report(value, epoch)), report);
        assert.equal(String(derivation.stream(Purpose.SENDING_TIME, 0, epoch).word()), sending_word);
        steps++;
      }
    }
    assert.equal(steps, 24);
  });
}

test("streams", () => {
  const { secret, full_digest, streams } = jsonOf("derived/streams.json");
  const derivation = new Derivation(fromHex(secret), fromHex(full_digest));
  for (const { purpose, part, input, values, words, then } of streams) {
    const stream = derivation.stream(purpose, part, BigInt(input), fromHex(values));
    for (const { limit, word } of words) assert.equal(String(stream.word(BigInt(limit))), word);
    for (const word of then) assert.equal(String(stream.word()), word);
  }
  assert.ok(names.length >= 26 && streams.length >= 20);
});
