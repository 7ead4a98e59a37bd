/** For browsers, and whatever else has IndexedDB and fetch. For Node see node.ts. */

export type { Change } from "./change.js";
export { Device, type DeviceOptions } from "./device.js";
export { DeviceError } from "./errors.js";
export { type Dropped, Outbox, Sender, type SenderOptions } from "./outbox.js";
export type { Slice } from "./slices.js";
export type { State, Waiting } from "./state.js";
export { type IndexedDbOptions, IndexedDbStore, MemoryStore, type Sentinel, type Store } from "./store.js";
export type { Index, Value, Values } from "./values.js";
