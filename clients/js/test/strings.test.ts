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
