/** SHA-256 and HMAC-SHA256 against published vectors, and against Node's own over all short lengths. */

import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";
import { fromHex, toHex } from "../src/bytes.js";
import { Hmac, sha256 } from "../src/sha256.js";

const text = (words: string): Uint8Array => new TextEncoder().encode(words);

test("the examples of FIPS 180-4 (NIST)", () => {
  const examples: [Uint8Array, string][] = [
    [text(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    [text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
    [
      text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ],
    [new Uint8Array(1_000_000).fill(0x61), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"],
  ];
  for (const [message, digest] of examples) assert.equal(toHex(sha256(message)), digest);
});

test("the cases of RFC 4231 for HMAC-SHA256", () => {
  const cases: [string, Uint8Array, string][] = [
    ["0b".repeat(20), text("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"],
    ["4a656665", text("what do ya want for nothing?"), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"],
    ["aa".repeat(20), new Uint8Array(50).fill(0xdd), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"],
    [
      "aa".repeat(131),
      text("Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ],
  ];
  for (const [key, message, tag] of cases) assert.equal(toHex(new Hmac(fromHex(key)).tag(message)), tag);
});

test("every length around the ends of blocks", () => {
  for (let length = 0; length < 300; length++) {
    const message = Uint8Array.from({ length }, (_, i) => (i * 7 + length) & 255);
    assert.equal(toHex(sha256(message)), createHash("sha256").update(message).digest("hex"));
    const key = message.subarray(0, length % 100);
    assert.equal(toHex(new Hmac(key).tag(message)), createHmac("sha256", key).update(message).digest("hex"));
  }
});
