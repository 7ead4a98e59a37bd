/** The golden bytes of docs/wire.md, which the Python side computes anew; and streams against Node's own HMAC. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { toHex } from "../src/bytes.js";
import { Derivation, FULL } from "../src/randomness.js";
import { encodeReport } from "../src/wire.js";
import { Device } from "../src/device.js";
import { Clock, definitionOf, SECRET, stateOf, storeWith } from "./devices.js";

const PAGE = readFileSync(new URL("../../../../docs/wire.md", import.meta.url), "utf-8");

function block(name: string): string {
  const found = new RegExp(`<!-- generated: ${name} -->\\n+\`\`\`text\\n(.*?)\n\`\`\``, "s").exec(PAGE);
  assert.ok(found, name);
  return found[1];
}

/** The hexadecimal bytes on the lines from `report` on. */
function reportIn(text: string): string {
  const lines = text.split("\n");
  const rest = lines.slice(lines.findIndex((line) => line.startsWith("report"))).map((line) => line.slice(17));
  return rest.map((line) => /^(?:[0-9a-f]{2}(?: |$))*/.exec(line)![0].replaceAll(" ", "")).join("");
}

const BLOCKS = {
  report: "minutes_in_app",
  affine: "loloha_affine",
  direct: "l_grr",
  unary: "l_osue",
  "bit-flip": "dbitflip_pm",
  strings: "strings_loloha",
};

for (const [name, collection] of Object.entries(BLOCKS)) {
  test(`${collection} sends the page's bytes`, async () => {
    const device = await Device.open(definitionOf(collection), await storeWith(SECRET));
    const golden = reportIn(block(name));
    assert.ok(golden.length > 40);
    assert.equal(toHex(await device.report(name === "strings" ? "abba" : 5, 7)), golden);
  });
}

test("the report is due when the page says", async () => {
  const [, share, now] = /= (\d+) s after a report at (\d+)/.exec(block("report"))!.map(Number);
  const store = await storeWith(SECRET);
  const options = { clock: new Clock(now).read, spread: Infinity };
  const device = await Device.open(definitionOf("minutes_in_app"), store, options);
  await device.report(5);
  const [waiting] = (await stateOf(store)).outbox;
  assert.deepEqual([waiting.epoch, waiting.due], [7, now + share]);
});

test("streams and words are HMAC-SHA256 in counter mode", () => {
  const digest = Uint8Array.from({ length: 32 }, (_, i) => 255 - i);
  const derivation = new Derivation(SECRET, digest);
  for (const [purpose, part, input] of [[1, 0, 0], [2, 2 ** 32 - 1, 7], [3, 1, 2 ** 40 + 5], [3, 0, -1]]) {
    const tail = Buffer.alloc(13);
    tail.writeUInt8(purpose, 0);
    tail.writeUInt32LE(part, 1);
    tail.writeBigInt64LE(BigInt(input), 5);
    const label = Buffer.concat([Buffer.from("ldpbeam device 1\0"), digest, tail]);
    const key = createHmac("sha256", SECRET).update(label).digest();
    const words: bigint[] = [];
    for (let i = 0; i < 300; i++) {
      const counter = Buffer.alloc(8);
      counter.writeBigUInt64LE(BigInt(i));
      const tag = createHmac("sha256", key).update(counter).digest();
      for (let at = 0; at < 32; at += 8) words.push(tag.readBigUInt64LE(at));
    }
    const plain = derivation.stream(purpose, part, input);
    for (const word of words) assert.equal(plain.word(), word);
    // With this limit almost half of the words are passed over.
    const limit = FULL / 2n + 3n;
    const below = derivation.stream(purpose, part, input);
    const kept = words.filter((word) => word < limit);
    assert.ok(kept.length > 400 && kept.length < 800);
    for (const word of kept) assert.equal(below.word(limit), word);
    const small = derivation.stream(purpose, part, input);
    for (const word of words) assert.equal(small.word(10n), word % 10n);
  }
});

test("fields that are zero are absent, and long ones have long lengths", () => {
  const digest = new Uint8Array(8);
  const payload = new Uint8Array(300).fill(7);
  const head = toHex(encodeReport({ digest, epoch: 0, reportId: 0n, payload })).slice(0, 6);
  assert.equal(head, "22ac02");
  const report = encodeReport({ digest: digest.fill(1), epoch: 2 ** 40, reportId: 1n, payload: Uint8Array.of(9) });
  assert.equal(toHex(report), "090101010101010101" + "10808080808040" + "190100000000000000" + "220109");
});
