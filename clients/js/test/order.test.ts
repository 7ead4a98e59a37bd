/** Which epochs a device reports, as docs/wire.md has it: the same cases as for the Python device. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "../src/bytes.js";
import { Device } from "../src/device.js";
import { DeviceError } from "../src/errors.js";
import { Clock, definitionOf, SECRET, stateOf, storeWith } from "./devices.js";
import { jsonOf } from "./support.js";

const DAY = 86_400;

interface Step {
  clock: number;
  collection?: number;
  epoch?: number;
  max_jump?: number;
  answer: string;
  spans?: number[][];
  due?: number[];
}

for (const { name, length, steps } of jsonOf("order/cases.json").cases as { name: string; length: number; steps: Step[] }[]) {
  test(name, async () => {
    const store = await storeWith(SECRET);
    const definitions = ["grr", "l_grr"].map((name) => {
      const epochs = { length_seconds: length, origin_seconds: 0, count: (5000 * DAY) / length };
      return { ...definitionOf(name), epochs };
    });
    const left = new Map<string, string>();
    for (const [number, step] of steps.entries()) {
      const which = step.collection ?? 0;
      const device = await Device.open(definitions[which], store, {
        maxJump: step.max_jump ?? 400 * DAY,
        clock: new Clock(step.clock).read,
      });
      const place = `${which} ${step.epoch ?? device.epoch}`;
      let answer: string;
      try {
        const report = toHex(await device.report(number % 11, step.epoch));
        answer = left.get(place) === report ? "again" : "new";
        assert.ok(answer === "again" || !left.has(place), "a second report of an epoch");
        left.set(place, report);
      } catch (error) {
        if (!(error instanceof DeviceError)) throw error;
        answer = error.code;
      }
      assert.equal(answer, step.answer, JSON.stringify(step));
      const state = await stateOf(store);
      if (step.spans) {
        const entry = state.entries.get(definitions[which].full_digest);
        assert.deepEqual(entry!.spans.map(({ first, last }) => [first, last]), step.spans);
      }
      if (step.due) {
        const due = state.outbox.filter((one) => one.due <= step.clock).map(({ epoch }) => epoch);
        assert.deepEqual(due.sort((a, b) => a - b), step.due);
      }
    }
  });
}
