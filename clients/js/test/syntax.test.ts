/** A page's build may lower the syntax: its reports stay the same. */

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import * as built from "../src/node.js";
import { newState } from "../src/state.js";
import { definitionOf, SECRET } from "./devices.js";
import { namesIn } from "./support.js";

const SOURCE = new URL("../src/", import.meta.url);

async function outcome({ Device, DeviceError, MemoryStore }: typeof built, name: string): Promise<unknown> {
  const definition = definitionOf(name);
  const store = new MemoryStore();
  await store.update(() => ({ keep: { ...newState(), secret: SECRET }, result: undefined }));
  const device = await Device.open(definition, store, { clock: () => 0 });
  const value = (place: number) =>
    definition.domain ? textOf(definition.domain, place) : definition.attributes.map((one: any) => textOf(one.domain, place));
  const answers = [];
  for (const [place, epoch] of [[0, 3], [1, 4], [0, 4], [0, 3]]) {
    answers.push(await device.report(value(place), epoch).catch((error) => [error instanceof DeviceError, error.code]));
  }
  return [answers, await device.outbox.waiting()];
}

const textOf = ({ labels, strings }: any, place: number): string =>
  strings?.symbols.slice(place, place + 3) ?? labels?.[place] ?? `${place}0.0e-1`;

for (const target of [ts.ScriptTarget.ES2015, ts.ScriptTarget.ES5]) {
  test(`lowered to ${ts.ScriptTarget[target]}`, async (t) => {
    const folder = mkdtempSync(fileURLToPath(new URL("../lowered-", import.meta.url)));
    t.after(() => rmSync(folder, { recursive: true }));
    for (const name of readdirSync(SOURCE).filter((one) => one.endsWith(".js") && one !== "audit.js")) {
      const text = readFileSync(new URL(name, SOURCE), "utf-8");
      const { outputText } = ts.transpileModule(text, { compilerOptions: { target, module: ts.ModuleKind.ES2015 } });
      writeFileSync(`${folder}/${name}`, outputText);
    }
    const lowered = await import(`${folder}/node.js`);
    for (const name of namesIn("definitions")) assert.deepEqual(await outcome(lowered, name), await outcome(built, name), name);
  });
}
