/** Answers `ldpbeam audit --client "node build/src/audit.js DEFINITION"`, line by line (docs/audit.md). */

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { fromHex, toHex } from "./bytes.js";
import { Device } from "./device.js";
import { DeviceError } from "./errors.js";
import "./node.js";
import { MemoryStore } from "./store.js";

const definition: unknown = JSON.parse(readFileSync(process.argv[2], "utf8"));
const stores = new Map<string, MemoryStore>();
const devices = new Map<string, Device>();

async function opened(name: string): Promise<Device> {
  const store = stores.get(name) ?? new MemoryStore();
  stores.set(name, store);
  const device = await Device.open(definition, store, { outbox: 0, maxJump: Infinity });
  devices.set(name, device);
  return device;
}

async function answer(line: string): Promise<string> {
  const [first, second, third, ...slice] = line.split(" ");
  if (first === "reopen") {
    await opened(second);
    return "ok";
  }
  const values = second.split(",").map((one) => {
    if (one.startsWith("text:")) return new TextDecoder("utf-8", { ignoreBOM: true }).decode(fromHex(one.slice(5)));
    return one.startsWith("index:") ? { index: Number(one.slice(6)) } : Number(one);
  });
  try {
    const device = devices.get(first) ?? (await opened(first));
    const said = slice.length ? JSON.parse(slice.join(" ")) : undefined;
    return toHex(await device.report(values.length > 1 ? values : values[0], Number(third), said));
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    return `error ${error.code}`;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${await answer(line)}\n`);
}
