/** What a person gives as a device's value, and the index that it stands for (docs/wire.md). */

import type { Domain, Strings } from "./definition.js";
import { DeviceError } from "./errors.js";
import { type Exact, exactNumber, nearestTo } from "./number.js";
import { sha256 } from "./sha256.js";

/** A value by its place in the domain, counted from 0. */
export interface Index {
  readonly index: number;
}

/**
 * What a person would write: of a `range` the number, which goes into its bucket and is clamped to the ends; of a `size`
 * the value itself; of `labels` the label; of `strings` the text. A number may be text. Or an `Index`, such as `{ index: 3 }`.
 */
export type Value = number | bigint | string | Index;
/** What a device holds: one value, or one for each attribute, in their order or by their names. */
export type Values = Value | readonly Value[] | Readonly<Record<string, Value>>;

/** One value per attribute, in the collection's order. */
export function inOrder(value: Values, attributes: string[]): readonly Value[] {
  if (typeof value === "object" && value !== null) {
    if (!Array.isArray(value)) {
      const named = value as Record<string, Value>;
      const names = Object.keys(named);
      if (names.length === attributes.length && attributes.every((name) => Object.hasOwn(named, name))) {
        return attributes.map((name) => named[name]);
      }
    } else if (value.length === attributes.length) {
      return value;
    }
  }
  throw valueError(`needs one value for each of the ${attributes.length} attributes, in their order or by name`);
}

/** The rule of docs/wire.md. */
export function indexOf(value: Value, domain: Domain): number {
  const { size, labels, maximum } = domain;
  if (typeof value === "object" && value !== null) {
    if (!Number.isSafeInteger(value.index)) throw valueError("an index must be an integer");
    if (value.index < 0 || value.index >= size) throw valueError(`an index of this domain lies in 0 to ${size - 1}`);
    return value.index;
  }
  if (labels) {
    if (typeof value !== "string") throw valueError("the value is no label", "Give the label itself, or { index: i } for its place.");
    const index = labels.indexOf(value);
    if (index >= 0) return index;
    if (domain.other !== null) return domain.other;
    throw valueError("the value is none of the domain's", "Add the label, or other: LABEL to the collection's domain.");
  }
  const number = exactNumber(value);
  const place = "or { index: i } for the value at place i.";
  if (!number) throw valueError("the value is not a finite number in decimal digits", `Give one such as 20 or 0.5, ${place}`);
  const { numerator, denominator } = number;
  if (maximum === null) {
    if (numerator % denominator === 0n) {
      const whole = numerator / denominator;
      if (whole >= 0n && whole < BigInt(size)) return Number(whole);
    }
    throw valueError(`the value is not one of the whole numbers 0 to ${size - 1}`, `Give one of them, ${place}`);
  }
  if (numerator < 0n) return 0;
  const found = size === maximum + 1 ? nearestTo(numerator, denominator) : bucketOf(number, size, maximum);
  return Number(found < BigInt(size) ? found : BigInt(size - 1));
}

/** Behind the end of a text, and in place of one that cannot be written. */
const [END, OTHER] = ["\0", "\u0001"];

/** The fingerprint of each prefix of a text (docs/wire.md, "Strings"). */
export function fingerprintsOf(text: unknown, { maxLength, symbols, fold, drop, lengths }: Strings): number[] {
  if (typeof text !== "string") throw valueError("the value is no text", "Give the text itself.");
  const folded = fold ? text.replace(/[A-Z]/g, (sign) => sign.toLowerCase()) : text;
  let written = Array.from(folded); // by code points, as everywhere else
  if (drop) written = written.filter((sign) => symbols.has(sign)).slice(0, maxLength);
  else if (written.length > maxLength || !written.every((sign) => symbols.has(sign))) written = [OTHER];
  return lengths.map((length) => {
    const prefix = written.slice(0, length).join("") + END.repeat(Math.max(0, length - written.length));
    const digest = sha256(new TextEncoder().encode(`ldpbeam prefix 1\0${prefix}`));
    return new DataView(digest.buffer).getUint32(0, true);
  });
}

/** The bucket that holds a number, counted on beyond the end. */
function bucketOf(number: Exact, size: number, maximum: number): bigint {
  const end = exactNumber(maximum) as Exact; // a definition's is finite
  return (number.numerator * BigInt(size) * end.denominator) / (number.denominator * end.numerator);
}

export function valueError(message: string, remedy = ""): DeviceError {
  return new DeviceError("E-DEVICE-VALUE", message, remedy);
}
