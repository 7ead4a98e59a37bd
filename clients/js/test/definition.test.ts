/** A definition whose integers do not fit together is refused. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDefinition } from "../src/definition.js";
import { DeviceError } from "../src/errors.js";
import { definitionOf } from "./devices.js";
import { jsonOf, namesIn } from "./support.js";

/** A definition with a change, by path. */
function changed(name: string, path: string, value: unknown): unknown {
  const definition = definitionOf(name);
  const keys = path.split(".");
  const last = keys.pop()!;
  const node = keys.reduce((at, key) => at[key], definition);
  assert.ok(last in node || last === "other", path);
  node[last] = value;
  return definition;
}

test("all that the library prints is accepted", () => {
  for (const name of namesIn("definitions")) assert.equal(parseDefinition(definitionOf(name)).version, 1);
});

test("a collection whose devices report in a few epochs only is refused by its name", () => {
  const participation = { reports: 1, of: 30 };
  for (const format of ["ldpbeam device definition 1", "ldpbeam device definition 2"]) {
    const definition = { ...(definitionOf("l_grr") as object), format, participation };
    assert.throws(() => parseDefinition(definition), /report in a few epochs only, which this client does not do/);
  }
});

for (const [name, path, values] of jsonOf("refused/definitions.json")) {
  test(`${path} of ${name}`, () => {
    for (const value of values) {
      assert.throws(
        () => parseDefinition(changed(name, path, value)),
        (error) => error instanceof DeviceError && error.code === "E-DEVICE-DEFINITION",
        JSON.stringify(value),
      );
    }
  });
}

test("what is no object is refused", () => {
  for (const wrong of [null, undefined, 1, "x", [], {}]) assert.throws(() => parseDefinition(wrong), DeviceError);
});
