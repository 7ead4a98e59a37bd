/** The repository's vectors: given words give the given memo and the given bytes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "../src/bytes.js";
import { parseDefinition } from "../src/definition.js";
import { protocolOf } from "../src/protocols.js";
import { jsonOf, namesIn, Script } from "./support.js";

interface Memo {
  answers: Record<string, string>;
  /** The one length of strings. */
  parts?: Memo[];
}

interface Step {
  device: number;
  /** Of strings the fingerprints of a text. */
  value: number | number[];
  words: string[];
  memo_after: Memo;
  payload: string;
}

/** An answer as the vectors write it: an integer, of which bit i is bit i of a packed answer. */
function written(answer: unknown): string {
  if (!(answer instanceof Uint8Array)) return String(Number(answer));
  return answer.reduceRight((number, byte) => number * 256n + BigInt(byte), 0n).toString();
}

const names = namesIn(".");

test("every encoding has vectors", () => {
  const encodings = names.map((name) => jsonOf(`definitions/${name}.json`).protocol.encoding);
  const known = "bit_flip direct laplace_mean local_hash one_bit_mean one_bit_rrpm piecewise_mean prefixes public_string subset unary";
  assert.equal([...new Set(encodings)].sort().join(" "), known);
  assert.ok(names.length >= 22);
});

for (const name of names) {
  test(`${name} replays every step`, () => {
    const vector = jsonOf(`${name}.json`);
    const definition = parseDefinition(jsonOf(`definitions/${name}.json`));
    const protocol = protocolOf(definition.protocol);
    const devices = vector.new_memos.map((created: { words: string[] }) => {
      const script = new Script();
      script.give(created.words);
      const kept = protocol.drawOnce(script);
      assert.equal(script.left, 0);
      return { script, kept };
    });
    for (const step of vector.steps as Step[]) {
      const { script, kept } = devices[step.device];
      script.give(step.words);
      const payload = protocol.payload([step.value].flat(), kept, script);
      assert.equal(script.left, 0, "every word is used");
      assert.equal(toHex(payload), step.payload);
      assert.equal(payload.length, definition.protocol.payloadSize);
      const memo = Object.fromEntries([...script.memo].map(([input, answer]) => [input, written(answer)]));
      assert.deepEqual(memo, (step.memo_after.parts?.[0] ?? step.memo_after).answers);
    }
    assert.equal(vector.steps.length, 24);
  });
}

test("noisy values end at both margins, to the integer", () => {
  const definition = parseDefinition(jsonOf("definitions/laplace_mean.json"));
  const part: any = definition.protocol;
  const protocol = protocolOf(definition.protocol);
  const script = new Script();
  const sent = (value: number, negative: boolean, digit: string, bits: string): number => {
    const sign = negative ? "0" : String((1n << 64n) - 1n);
    script.give([sign, sign, digit, digit, ...part.instant.bits.map(() => bits)]);
    const payload = protocol.payload([value], undefined, script);
    return Number(new DataView(payload.buffer).getBigInt64(0, true));
  };
  const [most, none] = ["0", String((1n << 64n) - 1n)];
  const last = part.domainSize - 1;
  assert.ok(part.margin > 0);
  // The largest noise is beyond either end.
  assert.equal(sent(last, false, most, most), last + part.margin);
  assert.equal(sent(0, true, most, most), -part.margin);
  // And none at all, which is −1 with a negative sign.
  assert.equal(sent(last, false, none, none), last);
  assert.equal(sent(0, true, none, none), -1);
});
