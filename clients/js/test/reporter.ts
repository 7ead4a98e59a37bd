/** Reports epoch after epoch from a folder, and prints each report; for tests that kill it. */

import { toHex } from "../src/bytes.js";
import { DeviceError } from "../src/errors.js";
import { FileStore } from "../src/file_store.js";
import { open, stateOf } from "./devices.js";

const [folder, what, first] = process.argv.slice(2);
const [name, fixed] = what.split(":");
const store = new FileStore(folder);
const labels = ["release", "beta"];
const device = await open(name, store, { outbox: 4 }, [{ name: "channel", labels }]);
for (let epoch = Number(first); epoch < 1000; ) {
  // Value and slice change with the process, so that a second draw, or another digest, would show.
  const value = fixed === undefined ? (epoch * 7 + process.pid) % 11 : Number(fixed);
  try {
    const report = toHex(await device.report(value, epoch, { channel: labels[(epoch + process.pid) % 2] }));
    process.stdout.write(`${JSON.stringify({ epoch, report })}\n`);
    epoch++;
  } catch (error) {
    if (!(error instanceof DeviceError) || error.code !== "E-DEVICE-EPOCH") throw error;
    const [entry] = (await stateOf(store)).entries.values();
    epoch = entry.spans.at(-1)!.last; // another process is further
  }
}
