/** Bytes: compared, as hexadecimal digits, as integers. */

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

export function fromHex(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

export function equal(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, i) => byte === other[i]);
}

/** A non-negative integer below 2^53 in `size` bytes from `at` on, little-endian. */
export function putInteger(into: Uint8Array, at: number, size: number, value: number): void {
  for (let i = 0; i < size; i++, value = Math.floor(value / 256)) into[at + i] = value % 256;
}
