/** The README lists every error code, and no other; its options are those of Device.open. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const ROOT = new URL("../../", import.meta.url);
const text = (name: string): string => readFileSync(new URL(name, ROOT), "utf-8");

test("error codes", () => {
  const sources = readdirSync(new URL("src", ROOT)).map((name) => text(`src/${name}`)).join("");
  const used = new Set(sources.match(/"E-[A-Z-]+"/g)?.map((code) => code.slice(1, -1)));
  const listed = [...text("README.md").matchAll(/^\| `(E-[A-Z-]+)`/gm)].map((found) => found[1]);
  assert.deepEqual(listed, [...used].sort());
});

test("options", () => {
  const block = /interface DeviceOptions \{(.*?)\n\}/s.exec(text("src/device.ts"))![1];
  const options = [...block.matchAll(/^  (\w+)\?:/gm)].map((found) => found[1]);
  const [before] = text("README.md").split("\n## State\n");
  const listed = [...before.matchAll(/^\| `([a-zA-Z]+)` \|/gm)].map((found) => found[1]);
  assert.deepEqual(listed, options);
});
