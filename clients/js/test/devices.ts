/** Devices for tests. */

import type { Dimension } from "../src/definition.js";
import { Device, type DeviceOptions } from "../src/device.js";
import { newState, type State } from "../src/state.js";
import { MemoryStore, type Store } from "../src/store.js";
import { jsonOf } from "./support.js";

/** 00 01 … 1f, the secret of docs/wire.md. */
export const SECRET = Uint8Array.from({ length: 32 }, (_, i) => i);

export function definitionOf(name: string): any {
  return jsonOf(`definitions/${name}.json`);
}

/** A store with the state of a device that never reported, and this secret. */
export async function storeWith(secret: Uint8Array): Promise<MemoryStore> {
  const store = new MemoryStore();
  await store.update(() => ({ keep: { ...newState(), secret }, result: undefined }));
  return store;
}

/** A clock that stands until it is moved. */
export class Clock {
  constructor(public seconds: number) {}
  readonly read = (): number => this.seconds;
}

export const ORIGIN = 1_767_225_600;
export const HOUR = 3600;

/** A device of a vector's collection, with a thousand epochs of an hour from ORIGIN on. */
export async function open(name: string, store: Store, options: DeviceOptions = {}, slices?: Dimension[]): Promise<Device> {
  const definition = { ...definitionOf(name), slices };
  definition.epochs = { length_seconds: HOUR, origin_seconds: ORIGIN, count: 1000 };
  return Device.open(definition, store, options);
}

export async function stateOf(store: Store): Promise<State> {
  return store.update((state) => ({ result: state! }));
}
