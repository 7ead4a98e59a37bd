/** For Node: all of index.ts, and a state in a folder. */

import { webcrypto } from "node:crypto";

// Node 18 has it, under another name.
globalThis.crypto ??= webcrypto as Crypto;

export { FileStore } from "./file_store.js";
export * from "./index.js";
