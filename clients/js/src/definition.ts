/** What `ldpbeam definition` prints of a collection, checked before a device uses it (docs/wire.md). */

import { fromHex } from "./bytes.js";
import { DeviceError } from "./errors.js";
import { FULL } from "./randomness.js";

export const FORMAT = "ldpbeam device definition 1";

/** Values that a fingerprint can have. */
const FINGERPRINTS = 2 ** 32;

/** Of collections in which a device reports only a few times in its life. */
const WITH_PARTICIPATION = "ldpbeam device definition 2";

/** Weights of a round over symbols: `keep` for the true one, `each` for every other. */
export interface SymbolRound {
  size: number;
  keep: bigint;
  each: bigint;
}

/** Weights over 2^64 of reporting 1 for a true 1, and for a true 0. */
export interface BitRound {
  one: bigint;
  zero: bigint;
}

/** Weight over 2^64 of reporting 1 for the value x: zero + x·step. */
export interface LinearRound {
  zero: bigint;
  step: bigint;
}

/** Weight over 2^64 of a set that holds the value. */
export interface SubsetRound {
  keep: bigint;
}

/** Weights of discrete Laplace noise; sign and digit over 2^128, bits over 2^64. */
export interface NoiseRound {
  negative: bigint;
  tails: bigint[];
  bits: bigint[];
}

/** Weights of each report in the window of the value, which begins at the value, and of each of the others. */
export interface WindowRound {
  width: number;
  keep: bigint;
  each: bigint;
}

export type HashFamily =
  | { family: "linear"; g: number; digits: number; seeds: number }
  | { family: "affine"; g: number; symbolSize: number }
  | { family: "interval"; g: number; functions: number; multipliers: number[]; domainSize: number }
  | { family: "listed"; g: number; functions: number };

interface Sizes {
  domainSize: number;
  payloadSize: number;
}

/** A protocol for one domain, by how it makes payloads. */
export type Part = Sizes &
  (
    | { encoding: "direct"; permanent: SymbolRound | null; instant: SymbolRound }
    | { encoding: "unary"; permanent: BitRound | null; instant: BitRound }
    | { encoding: "local_hash"; hash: HashFamily; permanent: SymbolRound | null; instant: SymbolRound }
    | { encoding: "bit_flip"; d: number; entrySize: number | null; permanent: BitRound | null; instant: BitRound | null }
    | { encoding: "subset"; w: number; instant: SubsetRound }
    | { encoding: "public_string"; threshold: bigint; instant: BitRound }
    | { encoding: "one_bit_mean"; instant: LinearRound }
    | { encoding: "one_bit_rrpm"; segment: number; permanent: LinearRound; instant: BitRound | null }
    | { encoding: "laplace_mean"; margin: number; instant: NoiseRound }
    | { encoding: "piecewise_mean"; instant: WindowRound }
  );

/** A protocol, of one domain or of several attributes. */
export type ProtocolDefinition =
  | Part
  | (Sizes & { encoding: "sample"; indexSize: number; weights: number[]; parts: Part[] })
  | (Sizes & { encoding: "split"; parts: Part[] })
  | (Sizes & { encoding: "together"; sumLimit: number; parts: Part[] });

export interface Domain {
  size: number;
  /** One per value, where the collection lists them. */
  labels: string[] | null;
  /** The value that a label that is not listed counts as. */
  other: number | null;
  /** The end of a range from 0, which is its shortest decimal. */
  maximum: number | null;
}

/** How texts become values: the fingerprints of their prefixes (docs/wire.md, "Strings"). */
export interface Strings {
  maxLength: number;
  symbols: ReadonlySet<string>;
  /** Whether A to Z are taken for a to z. */
  fold: boolean;
  /** Whether other symbols are left out and long texts cut; else such a text is one that cannot be written. */
  drop: boolean;
  /** Of the prefixes, ascending; the last is `maxLength`. */
  lengths: number[];
}

/** One thing that devices say in clear, and the labels that it can have. */
export interface Dimension {
  name: string;
  labels: string[];
}

export interface Definition {
  name: string;
  version: number;
  /** First 8 bytes of the full digest: what every report carries where there are no slices. */
  digest: Uint8Array;
  /** SHA-256 of the canonical collection. */
  fullDigest: Uint8Array;
  epochs: { length: number; origin: number; count: number };
  /** None for most collections. */
  slices: Dimension[];
  /** One, or one for each attribute; none for strings. */
  domains: Domain[];
  /** Null where the values are others than texts. */
  strings: Strings | null;
  /** Names of the attributes; null for a collection of one domain. */
  attributes: string[] | null;
  protocol: ProtocolDefinition;
}

/**
 * The definition in parsed JSON.
 *
 * @throws DeviceError it is none, is damaged, or has an encoding that this client does not know.
 */
export function parseDefinition(json: unknown): Definition {
  const all = new Node_(json, "definition");
  if (all.text("format") === WITH_PARTICIPATION || all.has("participation")) {
    // A device that reported in every epoch would spend many times what the collection promises.
    throw all.wrong("participation", "of a collection whose devices report in a few epochs only, which this client does not do");
  }
  if (all.text("format") !== FORMAT) throw all.wrong("format", `not ${FORMAT}`);
  const epochs = all.node("epochs");
  const attributes = all.list("attributes");
  const domain = all.optional("domain");
  const strings = domain?.has("strings") ? parseStrings(domain.node("strings")) : null;
  if ((domain === null) === (attributes.length === 0)) throw all.wrong("domain", "neither one domain nor attributes");
  const found: Definition = {
    name: all.text("name"),
    version: all.integer("version", 1),
    digest: all.bytes("digest", 8),
    fullDigest: all.bytes("full_digest", 32),
    epochs: {
      length: epochs.integer("length_seconds", 1),
      origin: epochs.integer("origin_seconds", 0),
      count: epochs.integer("count", 1),
    },
    slices: all.has("slices") ? all.list("slices").map(parseDimension) : [],
    domains: domain ? (strings ? [] : [parseDomain(domain)]) : attributes.map((one) => parseDomain(one.node("domain"))),
    strings,
    attributes: domain ? null : attributes.map((one) => one.text("name")),
    protocol: strings ? parsePrefixes(all.node("protocol"), strings) : parseProtocol(all.node("protocol"), attributes.length),
  };
  if (found.digest.some((byte, i) => byte !== found.fullDigest[i])) {
    throw all.wrong("digest", "not the beginning of full_digest");
  }
  if (new Set(found.slices.map(({ name }) => name)).size !== found.slices.length) {
    throw all.wrong("slices", "without a name of its own for each dimension");
  }
  const parts = "parts" in found.protocol ? found.protocol.parts : [found.protocol];
  if (parts.some((part, i) => part.domainSize !== (strings ? FINGERPRINTS : found.domains[i].size))) {
    throw all.wrong("protocol", "of another size than its domain");
  }
  return found;
}

function parseDimension(node: Node_): Dimension {
  const labels = node.texts("labels") ?? [];
  if (labels.length === 0 || new Set(labels).size !== labels.length) throw node.wrong("labels", "not different labels");
  return { name: node.text("name"), labels };
}

function parseDomain(node: Node_): Domain {
  const size = node.integer("size", 2, 1 << 24);
  const labels = node.texts("labels");
  if (labels && (labels.length !== size || new Set(labels).size !== size)) {
    throw node.wrong("labels", "not one different label per value");
  }
  const other = node.has("other") ? node.integer("other", 0, size - 1) : null;
  if (other !== null && !labels) throw node.wrong("other", "for labels only");
  const maximum = node.has("maximum") ? node.positive("maximum") : null;
  if (maximum !== null && labels) throw node.wrong("maximum", "for ranges only");
  return { size, labels, other, maximum };
}

function parseStrings(node: Node_): Strings {
  const maxLength = node.integer("max_length", 1, 64);
  const symbols = Array.from(node.text("symbols"));
  const lengths = node.integers("lengths", null, 1, maxLength);
  if (new Set(symbols).size !== symbols.length) throw node.wrong("symbols", "not different symbols");
  if (lengths.some((one, i) => one <= (lengths[i - 1] ?? 0)) || lengths[lengths.length - 1] !== maxLength) {
    throw node.wrong("lengths", "not ascending up to max_length");
  }
  return { maxLength, symbols: new Set(symbols), fold: node.flag("fold"), drop: node.flag("drop"), lengths };
}

/** What one length is to strings, one attribute is to `sample`: a device draws it once, here by weights. */
function parsePrefixes(node: Node_, { lengths }: Strings): ProtocolDefinition {
  if (node.text("encoding") !== "prefixes") throw node.wrong("encoding", "not that of strings");
  const sizes = { domainSize: node.integer("domain_size", 2), payloadSize: node.integer("payload_size", 1) };
  const weights = node.integers("weights", lengths.length, 1, 2 ** 32);
  const level = parsePart(node.node("level"), FINGERPRINTS);
  const indexSize = node.integer("index_size", 1, 2);
  const parts = lengths.map(() => level);
  return node.sized({ ...sizes, encoding: "sample", indexSize, weights, parts }, indexSize + level.payloadSize);
}

function parseProtocol(node: Node_, attributes: number): ProtocolDefinition {
  if (attributes === 0) return parsePart(node);
  const parts = node.list("parts").map((one) => parsePart(one));
  if (parts.length !== attributes) throw node.wrong("parts", "not one per attribute");
  const sizes = { domainSize: node.integer("domain_size", 2), payloadSize: node.integer("payload_size", 1) };
  const longest = Math.max(...parts.map((part) => part.payloadSize));
  const sum = parts.reduce((total, part) => total + part.payloadSize, 0);
  const encoding = node.text("encoding");
  switch (encoding) {
    case "sample": {
      const indexSize = node.integer("index_size", 1, 2);
      const weights = parts.map(() => 1);
      return node.sized({ ...sizes, encoding, indexSize, weights, parts }, indexSize + longest);
    }
    case "split":
      return node.sized({ ...sizes, encoding, parts }, sum);
    case "together": {
      const sumLimit = node.integer("sum_limit", 1);
      return node.sized({ ...sizes, encoding, sumLimit, parts }, bytesFor(parts.length));
    }
    default:
      throw node.wrong("encoding", "not known to this client");
  }
}

function parsePart(node: Node_, most: number = 1 << 24): Part {
  const domainSize = node.integer("domain_size", 2, most);
  const sizes = { domainSize, payloadSize: node.integer("payload_size", 1) };
  const encoding = node.text("encoding");
  const permanent = <R>(read: (round: Node_) => R): R | null => {
    const found = node.optional("permanent");
    return found && read(found);
  };
  const instant = node.optional("instant");
  const needed = (): Node_ => instant ?? node.node("instant");
  switch (encoding) {
    case "direct": {
      const rounds = { permanent: permanent((r) => symbols(r, domainSize)), instant: symbols(needed(), domainSize) };
      return node.sized({ ...sizes, encoding, ...rounds }, bytesFor((domainSize - 1).toString(2).length));
    }
    case "unary":
      return node.sized(
        { ...sizes, encoding, permanent: permanent(bits), instant: bits(needed()) },
        bytesFor(domainSize),
      );
    case "local_hash": {
      const hash = parseHash(node.node("hash"), domainSize);
      const rounds = { permanent: permanent((r) => symbols(r, hash.g)), instant: symbols(needed(), hash.g) };
      const cells = hash.family === "linear" ? hash.g * hash.seeds : hash.family === "affine" ? 0 : hash.g * hash.functions;
      const size = hash.family === "affine" ? 16 + hash.symbolSize : bytesFor((cells - 1).toString(2).length);
      return node.sized({ ...sizes, encoding, hash, ...rounds }, size);
    }
    case "bit_flip": {
      const d = node.integer("d", 1, domainSize);
      const entrySize = d === domainSize ? null : node.integer("entry_size", 1, 4);
      const rounds = { permanent: permanent(bits), instant: instant && bits(instant) };
      if ((rounds.permanent === null) === (rounds.instant === null)) throw node.wrong("instant", "not one round");
      return node.sized({ ...sizes, encoding, d, entrySize, ...rounds }, entrySize ? d * entrySize : bytesFor(d));
    }
    case "subset": {
      const w = node.integer("w", 1, domainSize - 1);
      const round = { keep: needed().weight("keep", 1n, FULL - 1n) };
      return node.sized({ ...sizes, encoding, w, instant: round }, bytesFor(domainSize));
    }
    case "public_string": {
      const threshold = BigInt(node.integer("threshold", 1, 2 ** 32));
      return node.sized({ ...sizes, encoding, threshold, instant: bits(needed()) }, 17);
    }
    case "one_bit_mean":
      return node.sized({ ...sizes, encoding, instant: linear(needed(), domainSize) }, 1);
    case "one_bit_rrpm": {
      const segment = node.integer("segment", 1, domainSize - 1);
      if ((domainSize - 1) % segment) throw node.wrong("segment", "not a divisor of the largest value");
      const memoised = linear(node.node("permanent"), domainSize);
      return node.sized({ ...sizes, encoding, segment, permanent: memoised, instant: instant && bits(instant) }, 1);
    }
    case "laplace_mean": {
      const margin = node.weight("margin", 0n, 1n << 50n);
      return node.sized({ ...sizes, encoding, margin: Number(margin), instant: noise(needed()) }, 8);
    }
    case "piecewise_mean": {
      const round = near(needed(), domainSize);
      const last = domainSize + round.width - 2;
      return node.sized({ ...sizes, encoding, instant: round }, bytesFor(last.toString(2).length));
    }
    default:
      throw node.wrong("encoding", "not known to this client");
  }
}

function parseHash(node: Node_, domainSize: number): HashFamily {
  const family = node.text("family");
  if (family === "affine") {
    const g = node.integer("g", 2, 1 << 16);
    return { family, g, symbolSize: node.integer("symbol_size", g > 256 ? 2 : 1, 2) };
  }
  if (family === "interval") {
    const g = node.integer("g", 2, Math.min(domainSize, 64));
    const functions = node.integer("functions", 2, 1 << 16);
    const multipliers = node.integers("multipliers", g - 1, 1, functions - 1);
    return { family, g, functions, multipliers, domainSize };
  }
  if (family === "listed") {
    const g = node.integer("g", 2, 1 << 16);
    return { family, g, functions: node.integer("functions", 2, 1 << 16) };
  }
  if (family !== "linear") throw node.wrong("family", "not known to this client");
  const g = node.integer("g", 2, 1 << 28);
  const digits = node.integer("digits", 1, 28);
  const seeds = node.integer("seeds", 1, 1 << 28);
  if (g ** digits !== seeds + 1 || seeds + 1 < domainSize) throw node.wrong("seeds", "not g^digits − 1, or too few");
  return { family, g, digits, seeds };
}

function symbols(node: Node_, size: number): SymbolRound {
  const keep = node.weight("keep", 1n, FULL - 1n);
  const each = node.weight("each", 1n, keep);
  if (node.text("size") !== String(size) || keep + BigInt(size - 1) * each > FULL) {
    throw node.wrong("size", "not as many symbols as there are");
  }
  return { size, keep, each };
}

function bits(node: Node_): BitRound {
  const one = node.weight("one", 1n, FULL - 1n);
  return { one, zero: node.weight("zero", 1n, one) };
}

function linear(node: Node_, domainSize: number): LinearRound {
  const step = node.weight("step", 1n, FULL);
  return { step, zero: node.weight("zero", 1n, FULL - 1n - step * BigInt(domainSize - 1)) };
}

function near(node: Node_, domainSize: number): WindowRound {
  const width = node.weight("width", 1n, BigInt(domainSize));
  const keep = node.weight("keep", 1n, FULL - 1n);
  const each = node.weight("each", 1n, keep);
  if (keep * width + each * BigInt(domainSize - 1) > FULL) throw node.wrong("each", "too large for its window");
  return { width: Number(width), keep, each };
}

function noise(node: Node_): NoiseRound {
  const wide = FULL * FULL - 1n;
  const tails = node.weights("tails", wide);
  return { negative: node.weight("negative", 1n, wide), tails, bits: node.weights("bits", FULL - 1n) };
}

function bytesFor(bits: number): number {
  return (bits + 7) >> 3;
}

/** An object of the JSON, and how to complain about it. */
class Node_ {
  readonly #fields: Record<string, unknown>;
  readonly #where: string;

  constructor(value: unknown, where: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw complaint(where, "not an object");
    this.#fields = value as Record<string, unknown>;
    this.#where = where;
  }

  wrong(key: string, why: string): DeviceError {
    return complaint(`${this.#where}.${key}`, why);
  }

  has(key: string): boolean {
    return this.#fields[key] !== undefined && this.#fields[key] !== null;
  }

  node(key: string): Node_ {
    return new Node_(this.#fields[key], `${this.#where}.${key}`);
  }

  optional(key: string): Node_ | null {
    return this.has(key) ? this.node(key) : null;
  }

  list(key: string): Node_[] {
    const found = this.#fields[key];
    if (!Array.isArray(found)) throw this.wrong(key, "not a list");
    return found.map((one, i) => new Node_(one, `${this.#where}.${key}[${i}]`));
  }

  text(key: string): string {
    const found = this.#fields[key];
    if (typeof found !== "string") throw this.wrong(key, "not a text");
    return found;
  }

  texts(key: string): string[] | null {
    if (!this.has(key)) return null;
    const found = this.#fields[key];
    if (!Array.isArray(found) || found.some((one) => typeof one !== "string")) throw this.wrong(key, "not texts");
    return found as string[];
  }

  integer(key: string, least: number, most: number = Number.MAX_SAFE_INTEGER): number {
    const found = this.#fields[key];
    if (typeof found !== "number" || !Number.isSafeInteger(found) || found < least || found > most) {
      throw this.wrong(key, `not an integer in ${least} .. ${most}`);
    }
    return found;
  }

  flag(key: string): boolean {
    const found = this.#fields[key];
    if (typeof found !== "boolean") throw this.wrong(key, "not true or false");
    return found;
  }

  /** `count` integers, or any number of them. */
  integers(key: string, count: number | null, least: number, most: number): number[] {
    const found = this.#fields[key];
    if (!Array.isArray(found) || found.length !== (count ?? found.length)) throw this.wrong(key, `not a list of ${count} integers`);
    for (const one of found) {
      if (!Number.isSafeInteger(one) || one < least || one > most) throw this.wrong(key, `not in ${least} .. ${most}`);
    }
    return found as number[];
  }

  positive(key: string): number {
    const found = this.#fields[key];
    if (typeof found !== "number" || !Number.isFinite(found) || found <= 0) throw this.wrong(key, "not a positive number");
    return found;
  }

  /** A non-negative integer as decimal text. */
  weight(key: string, least: bigint, most: bigint): bigint {
    return this.#weight(this.#fields[key], key, least, most);
  }

  weights(key: string, most: bigint): bigint[] {
    const found = this.#fields[key];
    if (!Array.isArray(found)) throw this.wrong(key, "not a list");
    return found.map((one) => this.#weight(one, key, 0n, most));
  }

  #weight(found: unknown, key: string, least: bigint, most: bigint): bigint {
    if (typeof found !== "string" || !/^[0-9]{1,40}$/.test(found)) throw this.wrong(key, "not a decimal integer");
    const weight = BigInt(found);
    if (weight < least || weight > most) throw this.wrong(key, "out of range");
    return weight;
  }

  bytes(key: string, length: number): Uint8Array {
    const found = this.text(key);
    if (found.length !== 2 * length || !/^[0-9a-f]*$/.test(found)) throw this.wrong(key, `not ${length} bytes`);
    return fromHex(found);
  }

  /** A protocol, if its payloads have the stated size. */
  sized<P extends Sizes>(protocol: P, expected: number): P {
    if (protocol.payloadSize !== expected) throw this.wrong("payload_size", `not ${expected}`);
    return protocol;
  }
}

function complaint(where: string, why: string): DeviceError {
  return new DeviceError("E-DEVICE-DEFINITION", `${where} is ${why}`, "Print it anew with `ldpbeam definition`.");
}
