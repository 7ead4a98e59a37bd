/** Texts that nobody listed: from the vectors' texts to fingerprints. The derived vectors have their reports. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Definition, parseDefinition } from "../src/definition.js";
import { Device } from "../src/device.js";
import { DeviceError } from "../src/errors.js";
import { MemoryStore } from "../src/store.js";
import { fingerprintsOf } from "../src/values.js";
import { definitionOf, stateOf } from "./devices.js";
import { jsonOf } from "./support.js";

/** The loloha collection of the vectors, with other strings and a weight for each length. */
function withStrings(strings: any): any {
  const definition = definitionOf("strings_loloha");
  definition.protocol.weights = strings.lengths.map(() => 1);
  return { ...definition, domain: { strings } };
}

test("every text has the fingerprints of the vectors", () => {
  const rules = jsonOf("strings/cases.json");
  for (const { domain, cases } of rules) {
    const { strings }: Definition = parseDefinition(withStrings(domain.strings));
    for (const [text, found] of cases) assert.deepEqual(fingerprintsOf(text, strings!), found, JSON.stringify(text));
    assert.ok(cases.length > 30);
  }
  assert.ok(rules.length >= 16);
});

test("what is no text is refused before anything is drawn", async () => {
  const store = new MemoryStore();
  const device = await Device.open(definitionOf("strings_olh"), store);
  for (const wrong of [8675309, 3n, { index: 3 }, ["8675309"], null, undefined, true, new String("8675309")]) {
    await assert.rejects(device.report(wrong as any, 1), (error) => {
      assert.ok(error instanceof DeviceError);
      assert.equal(error.message, "the value is no text. Give the text itself. [E-DEVICE-VALUE]");
      return true;
    });
  }
  assert.equal((await stateOf(store)).entries.size, 0);
});

const WRONG: [path: string, ...values: unknown[]][] = [
  ["domain.strings.max_length", 0, 5, 65, "6"],
  ["domain.strings.symbols", "aa", 5, null],
  ["domain.strings.fold", 1, null, "true"],
  ["domain.strings.drop", 0, undefined],
  ["domain.strings.lengths", [], null, [2, 4], [2, 2, 6], [4, 2, 6], [0, 4, 6], [2, 4, 7], [6]],
  ["protocol.encoding", "sample", "local_hash"],
  ["protocol.weights", [9, 9], [9, 9, 0], [9, 9, 1.5], [9, 9, "14"], null],
  ["protocol.index_size", 0, 2, 3],
  ["protocol.payload_size", 2, 4],
  ["protocol.level", null, []],
  ["protocol.level.domain_size", 11, 2 ** 32 + 1],
  ["protocol.level.payload_size", 1, 3],
  ["protocol.level.hash.family", "affine", "linear"],
  ["protocol.level.hash.functions", 1, 2 ** 17, "4096"],
];

for (const [path, ...values] of WRONG) {
  test(`${path} that does not fit is refused`, () => {
    for (const value of values) {
      const definition = definitionOf("strings_loloha");
      const keys = path.split(".");
      const last = keys.pop()!;
      keys.reduce((at, key) => at[key], definition)[last] = value;
      assert.throws(() => parseDefinition(definition), /E-DEVICE-DEFINITION/, JSON.stringify(value));
    }
  });
}
