/** The number that a person gives, exactly (docs/wire.md). */

/** numerator / denominator; the denominator is positive. */
export interface Exact {
  numerator: bigint;
  denominator: bigint;
}

/** Most characters of a number's text, blanks around it left out. */
const LONGEST = 400;

const TEXT = /^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4}))?$/;

/** The number that a text stands for, or a number, which is its shortest decimal; null for anything else. */
export function exactNumber(given: unknown): Exact | null {
  if (typeof given !== "string" && typeof given !== "number" && typeof given !== "bigint") return null;
  const text = typeof given === "bigint" ? given.toString() : String(given).replace(/^[ \t]+|[ \t]+$/g, "");
  const found = typeof given === "bigint" || text.length <= LONGEST ? TEXT.exec(text) : null;
  if (!found) return null;
  const [, sign, before, after = "", power = "0"] = found;
  if (before === "" && after === "") return null;
  const digits = BigInt(before + after) * (sign === "-" ? -1n : 1n);
  const exponent = Number(power) - after.length;
  const scale = BigInt(`1${"0".repeat(Math.abs(exponent))}`); // no `**`, as in sha256.ts
  return exponent < 0 ? { numerator: digits, denominator: scale } : { numerator: digits * scale, denominator: 1n };
}

/** The integer nearest to n / d, the even one of two, of numbers that are not negative. */
export function nearestTo(n: bigint, d: bigint): bigint {
  const found = (2n * n + d) / (2n * d);
  return (2n * n + d) % (2n * d) === 0n && found % 2n !== 0n ? found - 1n : found;
}
