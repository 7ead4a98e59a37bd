/** How a value becomes a payload: the device side of every encoding (docs/wire.md, "Encodings"). */

import { putInteger } from "./bytes.js";
import type { BitRound, HashFamily, LinearRound, Part, ProtocolDefinition, SymbolRound, WindowRound } from "./definition.js";
import { FULL, type Source, type Words } from "./randomness.js";

/** What a device draws once for life, as the encoding needs it. */
export type Kept = unknown;

/** One protocol with its integers fixed. */
export interface Protocol {
  /** What is drawn once for life; undefined where nothing is. */
  drawOnce(source: Source): Kept;
  /** The payload of one report about values that are inside their domains, one per attribute. */
  payload(values: readonly number[], kept: Kept, source: Source): Uint8Array;
}

export function protocolOf(definition: ProtocolDefinition): Protocol {
  switch (definition.encoding) {
    case "sample":
      return new Sample(definition.parts.map(protocolOf), definition.weights, definition.indexSize, definition.payloadSize);
    case "split":
      return new Split(definition.parts.map(protocolOf), definition.payloadSize);
    case "together":
      return new Together(definition.parts.map(protocolOf), definition.payloadSize);
    default:
      return new OneDomain(partOf(definition));
  }
}

// --- rounds

function drawSymbol(round: SymbolRound, symbol: number, words: Words): number {
  const word = words.word(round.keep + BigInt(round.size - 1) * round.each);
  if (word < round.keep) return symbol;
  const lie = Number((word - round.keep) / round.each);
  return lie >= symbol ? lie + 1 : lie;
}

function drawBit(round: BitRound, bit: boolean, words: Words): boolean {
  return words.word() < (bit ? round.one : round.zero);
}

function drawLinear(round: LinearRound, value: number, words: Words): boolean {
  return words.word() < round.zero + BigInt(value) * round.step;
}

function drawNear({ width, keep, each }: WindowRound, value: number, others: number, words: Words): number {
  const inside = keep * BigInt(width);
  const word = words.word(inside + each * BigInt(others));
  if (word < inside) return value + Number(word / keep);
  const other = Number((word - inside) / each);
  return other >= value ? other + width : other;
}

/** `count` bits, each randomised with a word of its own, lowest first; packed with bit i in byte i >> 3. */
function drawBits(round: BitRound, count: number, bit: (i: number) => boolean, words: Words): Uint8Array {
  const drawn = new Uint8Array((count + 7) >> 3);
  for (let i = 0; i < count; i++) if (drawBit(round, bit(i), words)) drawn[i >> 3] |= 1 << (i & 7);
  return drawn;
}

function bitOf(packed: Uint8Array, i: number): boolean {
  return ((packed[i >> 3] >> (i & 7)) & 1) === 1;
}

function integer(value: number, size: number): Uint8Array {
  const payload = new Uint8Array(size);
  putInteger(payload, 0, size, value);
  return payload;
}

// --- encodings of one domain

/** An encoding of one domain: what it draws once, and the payload of a value. */
interface Encoding {
  drawOnce(words: Words): Kept;
  payload(value: number, kept: Kept, source: Source): Uint8Array;
}

class OneDomain implements Protocol {
  readonly #encoding: Encoding;

  constructor(encoding: Encoding) {
    this.#encoding = encoding;
  }

  drawOnce(source: Source): Kept {
    return this.#encoding.drawOnce(source);
  }

  payload(values: readonly number[], kept: Kept, source: Source): Uint8Array {
    return this.#encoding.payload(values[0], kept, source);
  }
}

const nothing = (): Kept => undefined;

function partOf(part: Part): Encoding {
  switch (part.encoding) {
    case "direct":
      return { drawOnce: nothing, payload: (value, _, source) => integer(symbol(part, value, source), part.payloadSize) };
    case "unary":
      return { drawOnce: nothing, payload: (value, _, source) => unary(part, value, source) };
    case "local_hash":
      return localHash(part);
    case "bit_flip":
      return bitFlip(part);
    case "subset":
      return { drawOnce: nothing, payload: (value, _, source) => subset(part, value, source) };
    case "public_string":
      return { drawOnce: nothing, payload: (value, _, source) => publicString(part, value, source) };
    case "one_bit_mean":
      return { drawOnce: nothing, payload: (value, _, source) => flag(drawLinear(part.instant, value, source)) };
    case "one_bit_rrpm":
      return {
        drawOnce: (words) => Number(words.word(BigInt(part.segment))),
        payload: (value, kept, source) => rounded(part, value, kept as number, source),
      };
    case "laplace_mean":
      return { drawOnce: nothing, payload: (value, _, source) => laplace(part, value, source) };
    case "piecewise_mean":
      return {
        drawOnce: nothing,
        payload: (value, _, source) =>
          integer(drawNear(part.instant, value, part.domainSize - 1, source), part.payloadSize),
      };
  }
}

type Of<E extends Part["encoding"]> = Extract<Part, { encoding: E }>;

/** Both rounds over symbols: the memoised one, where there is one, then that of the report. */
function symbol(
  part: { permanent: SymbolRound | null; instant: SymbolRound },
  value: number,
  source: Source,
): number {
  const { permanent, instant } = part;
  const held = permanent ? source.permanent(value, (words) => drawSymbol(permanent, value, words)) : value;
  return drawSymbol(instant, held, source);
}

function unary(part: Of<"unary">, value: number, source: Source): Uint8Array {
  const { permanent, instant, domainSize } = part;
  const oneHot = (i: number): boolean => i === value;
  if (!permanent) return drawBits(instant, domainSize, oneHot, source);
  const answer = source.permanent(value, (words) => drawBits(permanent, domainSize, oneHot, words));
  return drawBits(instant, domainSize, (i) => bitOf(answer, i), source);
}

function localHash(part: Of<"local_hash">): Encoding {
  const family = familyOf(part.hash);
  return {
    drawOnce: (words) => (part.permanent ? family.draw(words) : undefined),
    payload: (value, kept, source) => {
      const seed = part.permanent ? kept : family.draw(source);
      return family.encode(seed, symbol(part, family.hash(seed, value), source), part.payloadSize);
    },
  };
}

interface Family {
  draw(words: Words): Kept;
  hash(seed: Kept, value: number): number;
  encode(seed: Kept, symbol: number, size: number): Uint8Array;
}

function familyOf(hash: HashFamily): Family {
  switch (hash.family) {
    case "linear":
      return linearFamily(hash);
    case "affine":
      return affineFamily(hash);
    case "interval":
      return intervalFamily(hash);
    case "listed":
      return listedFamily(hash);
  }
}

function linearFamily({ g, digits, seeds }: Extract<HashFamily, { family: "linear" }>): Family {
  return {
    draw: (words) => 1 + Number(words.word(FULL - (FULL % BigInt(seeds))) % BigInt(seeds)),
    hash: (kept, value) => {
      let [total, seed] = [0, kept as number];
      for (let i = 0; i < digits; i++) {
        total += (seed % g) * (value % g);
        seed = Math.floor(seed / g);
        value = Math.floor(value / g);
      }
      return total % g;
    },
    encode: (kept, symbol, size) => integer(((kept as number) - 1) * g + symbol, size),
  };
}

function intervalFamily(hash: Extract<HashFamily, { family: "interval" }>): Family {
  const { g, functions, multipliers, domainSize } = hash;
  // At most 2^37: exact in a number.
  const cut = (place: number): number => Math.ceil(((2 * place + 1) * (domainSize - 1)) / (2 * (g - 1) * functions));
  return {
    draw: (words) => Number(words.word() % BigInt(functions)),
    hash: (kept, value) => {
      let below = 0;
      for (let i = 0; i < g - 1; i++) {
        below += Number(cut(i * functions + ((multipliers[i] * (kept as number)) % functions)) <= value);
      }
      return below;
    },
    encode: (kept, symbol, size) => integer((kept as number) * g + symbol, size),
  };
}

/** A multiplier and a summand, 64 bits each. */
interface Affine {
  a: bigint;
  c: bigint;
}

function affineFamily({ g, symbolSize }: Extract<HashFamily, { family: "affine" }>): Family {
  return {
    draw: drawAffine,
    hash: (kept, value) => Number((upperHalf(kept as Affine, value) * BigInt(g)) >> 32n),
    encode: (kept, symbol, size) => {
      const payload = affineSeed(kept as Affine, size);
      putInteger(payload, 16, symbolSize, symbol);
      return payload;
    },
  };
}

/** Multipliers a with |a| < 2^13, as signed integers, map neighbouring values alike; they are exchanged. */
const REACH = 1n << 13n;
const EXCHANGE = 0x9e3779b97f4a7c15n;

function drawAffine(words: Words): Affine {
  const a = words.word();
  const degenerate = (a + REACH - 1n) % FULL < 2n * REACH - 1n;
  return { a: degenerate ? a ^ EXCHANGE : a, c: words.word() };
}

/** Upper 32 bits of a·value + c modulo 2^64. */
function upperHalf({ a, c }: Affine, value: number): bigint {
  return (a * BigInt(value) + c) % FULL >> 32n;
}

function affineSeed({ a, c }: Affine, size: number): Uint8Array {
  const payload = new Uint8Array(size);
  const view = new DataView(payload.buffer);
  view.setBigUint64(0, a, true);
  view.setBigUint64(8, c, true);
  return payload;
}

/** Word `index` of the public list: SplitMix64 (Steele and others, 2014), started at 0. */
function publicWord(index: number): bigint {
  let word = (BigInt(index + 1) * EXCHANGE) % FULL;
  word = ((word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n) % FULL;
  word = ((word ^ (word >> 27n)) * 0x94d049bb133111ebn) % FULL;
  return word ^ (word >> 31n);
}

function listedFamily({ g, functions }: Extract<HashFamily, { family: "listed" }>): Family {
  return {
    draw: (words) => Number(words.word() % BigInt(functions)),
    hash: (kept, value) => {
      const listed = { a: publicWord(2 * (kept as number)), c: publicWord(2 * (kept as number) + 1) };
      return Number((upperHalf(listed, value) * BigInt(g)) >> 32n);
    },
    encode: (kept, symbol, size) => integer((kept as number) * g + symbol, size),
  };
}

function bitFlip(part: Of<"bit_flip">): Encoding {
  const { d, domainSize, entrySize, permanent, instant, payloadSize } = part;
  const sample = (words: Words): number[] => {
    if (d === domainSize) return Array.from({ length: d }, (_, i) => i);
    // d steps of a Fisher-Yates shuffle; the deck is kept as its differences from 0 .. k - 1.
    const moved = new Map<number, number>();
    const drawn: number[] = [];
    for (let i = 0; i < d; i++) {
      const j = i + Number((words.word() * BigInt(domainSize - i)) >> 64n);
      drawn.push(moved.get(j) ?? j);
      moved.set(j, moved.get(i) ?? i);
    }
    return drawn.sort((a, b) => a - b);
  };
  return {
    drawOnce: (words) => (permanent ? sample(words) : undefined),
    payload: (value, kept, source) => {
      const buckets = permanent ? (kept as number[]) : sample(source);
      const place = buckets.indexOf(value);
      const held = (i: number): boolean => i === place;
      // All values that were not sampled share one input, d.
      const bits = permanent
        ? source.permanent(place < 0 ? d : place, (words) => drawBits(permanent, d, held, words))
        : drawBits(instant as BitRound, d, held, source);
      if (entrySize === null) return bits;
      const payload = new Uint8Array(payloadSize);
      buckets.forEach((bucket, i) => putInteger(payload, i * entrySize, entrySize, 2 * bucket + Number(bitOf(bits, i))));
      return payload;
    },
  };
}

/** Others by Floyd's way to draw without repeats, in the numbers of the values; then perhaps the value. */
function subset(part: Of<"subset">, value: number, source: Source): Uint8Array {
  const { domainSize, w, instant, payloadSize } = part;
  const places = Array.from({ length: w }, (_, i) => Number(source.word(BigInt(domainSize - w + i))));
  const own = Number(source.word() < instant.keep);
  const payload = new Uint8Array(payloadSize);
  const among = (other: number): number => other + Number(other >= value);
  const put = (i: number, bit: number): void => {
    payload[i >> 3] |= bit << (i & 7);
  };
  places.forEach((place, i) => {
    const other = bitOf(payload, among(place)) ? domainSize - 1 - w + i : place;
    put(among(other), Number(i >= own));
  });
  put(value, own);
  return payload;
}

function publicString(part: Of<"public_string">, value: number, source: Source): Uint8Array {
  const seed = drawAffine(source);
  const payload = affineSeed(seed, 17);
  payload[16] = Number(drawBit(part.instant, upperHalf(seed, value) < part.threshold, source));
  return payload;
}

function flag(bit: boolean): Uint8Array {
  return Uint8Array.of(Number(bit));
}

function rounded(part: Of<"one_bit_rrpm">, value: number, alpha: number, source: Source): Uint8Array {
  const { segment, permanent, instant } = part;
  const point = Math.floor(value / segment) + Number((value % segment) + alpha >= segment);
  const answer = source.permanent(point, (words) => drawLinear(permanent, point * segment, words));
  return flag(instant ? drawBit(instant, answer, source) : answer);
}

function laplace(part: Of<"laplace_mean">, value: number, source: Source): Uint8Array {
  const { negative, tails, bits } = part.instant;
  const sign = source.word() * FULL + source.word();
  const digit = source.word() * FULL + source.word();
  let magnitude = tails.filter((tail) => digit < tail).length * 2 ** bits.length;
  bits.forEach((weight, i) => (magnitude += Number(source.word() < weight) * 2 ** i));
  const noisy = value + (sign < negative ? -1 - magnitude : magnitude);
  const clamped = Math.min(Math.max(noisy, -part.margin), part.domainSize - 1 + part.margin);
  const payload = new Uint8Array(8);
  new DataView(payload.buffer).setBigInt64(0, BigInt(clamped), true);
  return payload;
}

// --- several attributes

/** Each device reports one attribute, drawn once by weights. */
class Sample implements Protocol {
  readonly #parts: Protocol[];
  readonly #weights: number[];
  readonly #indexSize: number;
  readonly #payloadSize: number;

  constructor(parts: Protocol[], weights: number[], indexSize: number, payloadSize: number) {
    this.#parts = parts;
    this.#weights = weights;
    this.#indexSize = indexSize;
    this.#payloadSize = payloadSize;
  }

  drawOnce(source: Source): Kept {
    let left = Number(source.word(BigInt(this.#weights.reduce((sum, one) => sum + one))));
    const attribute = this.#weights.findIndex((weight) => (left -= weight) < 0);
    return { attribute, kept: this.#parts[attribute].drawOnce(source.part(attribute)) };
  }

  payload(values: readonly number[], kept: Kept, source: Source): Uint8Array {
    const { attribute, kept: own } = kept as { attribute: number; kept: Kept };
    const payload = integer(attribute, this.#payloadSize);
    const part = this.#parts[attribute].payload([values[attribute]], own, source.part(attribute));
    payload.set(part, this.#indexSize);
    return payload;
  }
}

/** Every report speaks about every attribute. */
class Split implements Protocol {
  protected readonly parts: Protocol[];
  protected readonly payloadSize: number;

  constructor(parts: Protocol[], payloadSize: number) {
    this.parts = parts;
    this.payloadSize = payloadSize;
  }

  drawOnce(source: Source): Kept {
    return this.parts.map((part, i) => part.drawOnce(source.part(i)));
  }

  payload(values: readonly number[], kept: Kept, source: Source): Uint8Array {
    return this.joined(
      this.parts.map((part, i) => part.payload([values[i]], (kept as Kept[])[i], source.part(i))),
    );
  }

  protected joined(parts: Uint8Array[]): Uint8Array {
    const payload = new Uint8Array(this.payloadSize);
    let at = 0;
    for (const part of parts) {
      payload.set(part, at);
      at += part.length;
    }
    return payload;
  }
}

/** One bit about each of several counters. */
class Together extends Split {
  protected override joined(parts: Uint8Array[]): Uint8Array {
    const payload = new Uint8Array(this.payloadSize);
    parts.forEach((part, i) => (payload[i >> 3] |= part[0] << (i & 7)));
    return payload;
  }
}
