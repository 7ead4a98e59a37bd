/** For browsers, and whatever else has IndexedDB and fetch. For Node see node.ts. */

export { Device, type DeviceOptions } from "./device.js";
export { DeviceError } from "./errors.js";
export { Outbox, Sender, type SenderOptions } from "./outbox.js";
export type { Waiting } from "./state.js";
export { type Change, type IndexedDbOptions, IndexedDbStore, MemoryStore, type Sentinel, type Store } from "./store.js";
export type { Index, Value, Values } from "./values.js";
