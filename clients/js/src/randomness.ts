/** Random words: where a device's draws come from (docs/wire.md, "Random words"). */

import { DeviceError } from "./errors.js";
import { Hmac, sha256 } from "./sha256.js";

/** Number of values of an unlimited word. */
export const FULL = 1n << 64n;

/** A source of independent uniform words. */
export interface Words {
  /** A uniform integer in [0, limit), 1 <= limit <= 2^64. */
  word(limit?: bigint): bigint;
}

/** The words of one report, or of what is drawn once; a protocol says what each draw is for. */
export interface Source extends Words {
  /** The permanent answer of a memoised input: what `draw` makes of the input's own words. */
  permanent<Answer>(input: number, draw: (words: Words) => Answer): Answer;
  /** The source of one of several attributes, by its position. */
  part(index: number): Source;
}

/** What words are for; the numbers are part of every label. */
export const Purpose = { ONCE: 1, PERMANENT: 2, FRESH: 3, REPORT_ID: 4, SENDING_TIME: 6 } as const;

/** In place of an attribute's position: what several attributes draw together. */
export const WHOLE = 2 ** 32 - 1;

const NOTHING = new Uint8Array(0);
const LABEL = new TextEncoder().encode("ldpbeam device 1\0");

/**
 * Bytes of the operating system's cryptographic generator.
 *
 * @throws DeviceError there is none.
 */
export function systemBytes(count: number): Uint8Array {
  try {
    return globalThis.crypto.getRandomValues(new Uint8Array(count));
  } catch {
    throw new DeviceError(
      "E-DEVICE-RANDOMNESS",
      "the system gives no random bytes, and without them no report is private",
      "Use a browser with crypto.getRandomValues.",
    );
  }
}

/** The words of one stream, in order. */
export class DerivedWords implements Words {
  readonly #hmac: Hmac;
  #blocks = 0n;
  #block: DataView = new DataView(new ArrayBuffer(0));
  #at = 0;

  constructor(key: Uint8Array) {
    this.#hmac = new Hmac(key);
  }

  word(limit: bigint = FULL): bigint {
    const end = FULL - (FULL % limit);
    for (;;) {
      const word = this.#next();
      if (word < end) return word % limit;
    }
  }

  #next(): bigint {
    if (this.#at === this.#block.byteLength) {
      const counter = new Uint8Array(8);
      new DataView(counter.buffer).setBigUint64(0, this.#blocks++, true);
      this.#block = new DataView(this.#hmac.tag(counter).buffer);
      this.#at = 0;
    }
    const word = this.#block.getBigUint64(this.#at, true);
    this.#at += 8;
    return word;
  }
}

/** The streams of one device and collection: all follow from the device's secret and the full digest. */
export class Derivation {
  readonly #hmac: Hmac;
  readonly #digest: Uint8Array;

  constructor(secret: Uint8Array, fullDigest: Uint8Array) {
    this.#hmac = new Hmac(secret);
    this.#digest = fullDigest;
  }

  /** A stream from its first word on. `input`: a memoised input or an epoch; `about`: `hashOf` the values, if fresh. */
  stream(purpose: number, part: number, input: number | bigint, about: Uint8Array = NOTHING): DerivedWords {
    const label = new Uint8Array(LABEL.length + 32 + 13 + about.length);
    label.set(LABEL);
    label.set(this.#digest, LABEL.length);
    const rest = new DataView(label.buffer, LABEL.length + 32);
    rest.setUint8(0, purpose);
    rest.setUint32(1, part, true);
    rest.setBigUint64(5, BigInt.asUintN(64, BigInt(input)), true);
    label.set(about, LABEL.length + 32 + 13);
    return new DerivedWords(this.#hmac.tag(label));
  }
}

/** 32 bytes that tell reports about different values apart: copies of a device must not share coins. */
export function hashOf(values: readonly number[]): Uint8Array {
  const packed = new DataView(new ArrayBuffer(4 * values.length));
  values.forEach((value, i) => packed.setUint32(4 * i, value, true));
  return sha256(new Uint8Array(packed.buffer));
}

/** The words of one purpose, a stream for each attribute; permanent answers have streams of their own. */
export class DerivedSource implements Source {
  readonly #derivation: Derivation;
  readonly #purpose: number;
  readonly #input: number;
  readonly #part: number;
  readonly #about: Uint8Array | undefined;
  #words: DerivedWords | undefined;
  readonly #parts = new Map<number, DerivedSource>();

  constructor(derivation: Derivation, purpose: number, input: number, part: number, about?: Uint8Array) {
    this.#derivation = derivation;
    this.#purpose = purpose;
    this.#input = input;
    this.#part = part;
    this.#about = about;
  }

  word(limit?: bigint): bigint {
    this.#words ??= this.#derivation.stream(this.#purpose, this.#part, this.#input, this.#about);
    return this.#words.word(limit);
  }

  permanent<Answer>(input: number, draw: (words: Words) => Answer): Answer {
    return draw(this.#derivation.stream(Purpose.PERMANENT, this.#part, input));
  }

  part(index: number): Source {
    let found = this.#parts.get(index);
    if (!found) {
      found = new DerivedSource(this.#derivation, this.#purpose, this.#input, index, this.#about);
      this.#parts.set(index, found);
    }
    return found;
  }
}
