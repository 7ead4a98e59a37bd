/** The vectors of values: from what a person gives to the index that a report is about. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { DeviceError } from "../src/errors.js";
import { indexOf } from "../src/values.js";
import { jsonOf } from "./support.js";

function found(given: any, domain: any): number | null {
  try {
    return indexOf(given, domain);
  } catch (error) {
    if (error instanceof DeviceError && error.code === "E-DEVICE-VALUE") return null;
    throw error;
  }
}

const domains = jsonOf("values/cases.json");

test("there are vectors of values", () => {
  assert.ok(domains.length >= 18);
});

for (const { cases, ...domain } of domains) {
  test(`the ${domain.size} values below ${domain.maximum ?? domain.labels?.length ?? domain.size}`, () => {
    for (const [given, index] of cases) assert.equal(found(given, domain), index, JSON.stringify(given));
    assert.ok(cases.length > 80);
  });
}

test("a bigint is an exact number, and what is no finite number is refused", () => {
  const domain = domains.find((one: any) => one.size === 365);
  assert.equal(found(3n, domain), 3);
  assert.equal(found(10n ** 500n, domain), 364);
  for (const wrong of [NaN, Infinity, -Infinity, undefined, Symbol("x"), () => 1, new Date(0), false]) {
    assert.equal(found(wrong, domain), null);
  }
});
