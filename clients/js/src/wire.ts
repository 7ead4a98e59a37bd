/** The Report message, encoded by hand (docs/wire.md, "Messages"). */

/** What one device sends for one epoch. */
export interface Report {
  digest: Uint8Array;
  epoch: number;
  reportId: bigint;
  payload: Uint8Array;
}

/** The bytes of a report; fields that are zero are absent, as in every proto3 message. */
export function encodeReport({ digest, epoch, reportId, payload }: Report): Uint8Array {
  const bytes: number[] = [];
  if (digest.some((byte) => byte !== 0)) bytes.push(0x09, ...Array.from(digest));
  if (epoch !== 0) bytes.push(0x10, ...varint(2 * epoch));
  if (reportId !== 0n) {
    const id = new Uint8Array(8);
    new DataView(id.buffer).setBigUint64(0, reportId, true);
    bytes.push(0x19, ...Array.from(id));
  }
  if (payload.length === 0) return Uint8Array.from(bytes);
  bytes.push(0x22, ...varint(payload.length));
  const message = new Uint8Array(bytes.length + payload.length);
  message.set(bytes);
  message.set(payload, bytes.length);
  return message;
}

/** Base-128 digits, lowest first; for integers below 2^53. */
function varint(value: number): number[] {
  const digits = [];
  for (; value >= 128; value = Math.floor(value / 128)) digits.push((value % 128) | 128);
  digits.push(value);
  return digits;
}
