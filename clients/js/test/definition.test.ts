/** A definition whose integers do not fit together is refused. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDefinition } from "../src/definition.js";
import { DeviceError } from "../src/errors.js";
import { definitionOf } from "./devices.js";
import { namesIn } from "./support.js";

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

const WRONG: [name: string, path: string, ...values: unknown[]][] = [
  ["l_grr", "format", "ldpbeam device definition 2", 1, null],
  ["l_grr", "digest", "", "00", "zz".repeat(8), "00".repeat(8), 5],
  ["l_grr", "full_digest", "00".repeat(31), "00".repeat(32)],
  ["l_grr", "version", 0, 1.5, "1", null],
  ["l_grr", "epochs.length_seconds", 0, -1, "3600"],
  ["l_grr", "epochs.origin_seconds", -1, null],
  ["l_grr", "epochs.count", 0],
  ["l_grr", "domain", null, [], "x"],
  ["l_grr", "domain.size", 1, 12, 1 << 25],
  ["l_grr", "domain.labels", ["a"], "a", Array(11).fill("a"), Array(11).fill(1)],
  ["l_grr", "domain.other", 1],
  ["l_grr", "attributes", null, [1]],
  ["l_grr", "protocol", null],
  ["l_grr", "protocol.encoding", "unary", "sample", "another"],
  ["l_grr", "protocol.domain_size", 10, 12],
  ["l_grr", "protocol.payload_size", 0, 2],
  ["l_grr", "protocol.instant", null],
  ["l_grr", "protocol.instant.size", "10", 11],
  ["l_grr", "protocol.instant.keep", "0", "1", String(1n << 64n), String((1n << 64n) - 1n), "-1", "1e3", 5, "", " 5"],
  ["l_grr", "protocol.permanent.each", "0", String(1n << 63n), null],
  ["l_osue", "protocol.permanent.one", "0", String(1n << 64n)],
  ["l_osue", "protocol.permanent.zero", "0", String((1n << 64n) - 1n)],
  ["l_osue", "protocol.payload_size", 1, 3],
  ["loloha_linear", "protocol.hash.family", "other"],
  ["loloha_linear", "protocol.hash.g", 1, 7],
  ["loloha_linear", "protocol.hash.digits", 0, 3],
  ["loloha_linear", "protocol.hash.seeds", 23, 25],
  ["loloha_affine", "protocol.hash.g", 1, 5, 300],
  ["loloha_interval", "protocol.hash.g", 1, 5, 65],
  ["loloha_interval", "protocol.hash.functions", 1, 57, "64"],
  ["loloha_interval", "protocol.hash.multipliers", [1, 11], [1, 11, 64], [1, 11, 0], [1, 11, "57"], null, 1],
  ["loloha_affine", "protocol.hash.symbol_size", 0, 2, 3],
  ["dbitflip_pm", "protocol.d", 0, 3, 12],
  ["dbitflip_pm", "protocol.entry_size", 0, 2, null],
  ["dbitflip_pm", "protocol.permanent", null],
  ["dbitflip_pm", "protocol.instant", { one: "9", zero: "1" }],
  ["binflip_plus", "protocol.threshold", 0, 2 ** 32 + 1, "7"],
  ["one_bit_mean", "protocol.instant.step", "0", String(1n << 63n)],
  ["one_bit_rrpm", "protocol.segment", 0, 3, 11],
  ["one_bit_rrpm", "protocol.permanent", null],
  ["laplace_mean", "protocol.margin", 5, "x"],
  ["laplace_mean", "protocol.instant.tails", null, [1]],
  ["piecewise_mean", "protocol.payload_size", 0, 2],
  ["piecewise_mean", "protocol.instant.width", "0", "12", 7],
  ["piecewise_mean", "protocol.instant.keep", "0", "1", String(1n << 63n)],
  ["piecewise_mean", "protocol.instant.each", "0", String(1n << 61n), null],
  ["sample_of_different_sizes", "protocol.index_size", 0, 3],
  ["sample_of_different_sizes", "protocol.parts", [], null],
  ["split_l_osue", "protocol.payload_size", 2, 4],
  ["together_one_bit_rrpm", "protocol.sum_limit", 0],
];

for (const [name, path, ...values] of WRONG) {
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
