/**
 * What a device keeps, as bytes: versioned, of known length, under a checksum. Damage is refused, never guessed at.
 *
 * bytes   content
 * 24      the name of the format
 * 2       its version, little-endian
 * 4       length of the JSON, little-endian
 * …       JSON, UTF-8
 * 32      SHA-256 of all of the above
 */

import { fromHex, putInteger, toHex } from "./bytes.js";
import { DeviceError } from "./errors.js";
import { systemBytes } from "./randomness.js";
import { sha256 } from "./sha256.js";

/** Epochs that no report is drawn for again, and the report of the last one; null once later epochs were reported. */
export interface Span {
  first: number;
  last: number;
  report: Uint8Array | null;
}

/** What a device keeps for one collection. */
export interface Entry {
  /** The epochs that were reported; the span of the last report comes last. */
  spans: Span[];
  /** The time that the clock showed when it was first doubted, or the beginning of the epoch asked for. */
  doubted: number | null;
}

/** A report that waits to be sent. */
export interface Waiting {
  /** When it is to be sent, seconds since 1970. */
  due: number;
  /** Of its collection, 64 hexadecimal digits. */
  fullDigest: string;
  epoch: number;
  report: Uint8Array;
}

export interface State {
  /** 32 bytes, from which every word of every report follows; none once the person has withdrawn. */
  secret: Uint8Array;
  /** The latest time that the clock has shown at a report, seconds since 1970. */
  clock: number | null;
  /** By full digest, 64 hexadecimal digits. */
  entries: Map<string, Entry>;
  outbox: Waiting[];
  /** Whether the person has withdrawn: nothing is reported any more, and nothing else is kept. */
  withdrawn: boolean;
}

export const VERSION = 1;
const NAME = new TextEncoder().encode("ldpbeam js device state\0");
const HEAD = NAME.length + 6;
const CHECK = 32;

/** The state of a device that never reported. */
export function newState(): State {
  return { secret: systemBytes(32), clock: null, entries: new Map(), outbox: [], withdrawn: false };
}

export function packState(state: State, version = VERSION): Uint8Array {
  const body = new TextEncoder().encode(
    JSON.stringify({
      secret: toHex(state.secret),
      clock: state.clock,
      entries: [...state.entries].map(([fullDigest, { spans, doubted }]) => ({
        fullDigest,
        spans: spans.map((one) => ({ ...one, report: one.report && toHex(one.report) })),
        doubted,
      })),
      outbox: state.outbox.map((one) => ({ ...one, report: toHex(one.report) })),
      withdrawn: state.withdrawn,
    }),
  );
  const content = new Uint8Array(HEAD + body.length + CHECK);
  content.set(NAME);
  putInteger(content, NAME.length, 2, version);
  putInteger(content, NAME.length + 2, 4, body.length);
  content.set(body, HEAD);
  content.set(sha256(content.subarray(0, HEAD + body.length)), HEAD + body.length);
  return content;
}

/**
 * The state in kept bytes.
 *
 * @throws DeviceError E-DEVICE-STATE-DAMAGED, or E-DEVICE-STATE-VERSION for a sound state of another version.
 */
export function unpackState(content: Uint8Array): State {
  if (content.length < HEAD + CHECK || NAME.some((byte, i) => content[i] !== byte)) {
    throw damaged("it is cut short or no state");
  }
  const end = content.length - CHECK;
  const head = new DataView(content.buffer, content.byteOffset, content.length);
  if (HEAD + head.getUint32(NAME.length + 2, true) !== end) throw damaged("its length is not the one it states");
  const check = sha256(content.subarray(0, end));
  if (check.some((byte, i) => content[end + i] !== byte)) throw damaged("its checksum does not fit");
  const version = head.getUint16(NAME.length, true);
  if (version !== VERSION) {
    throw new DeviceError(
      "E-DEVICE-STATE-VERSION",
      `the device's state has format ${version}, and this program reads format ${VERSION}`,
      "Use the version of the program that wrote it, or a newer one.",
    );
  }
  const found = JSON.parse(new TextDecoder().decode(content.subarray(HEAD, end)));
  return {
    secret: fromHex(found.secret),
    clock: found.clock,
    entries: new Map(
      found.entries.map((one: { fullDigest: string; spans: (Span & { report: string | null })[]; doubted: number | null }) => [
        one.fullDigest,
        {
          spans: one.spans.map((span) => ({ ...span, report: span.report === null ? null : fromHex(span.report) })),
          doubted: one.doubted,
        },
      ]),
    ),
    outbox: found.outbox.map((one: Waiting & { report: string }) => ({ ...one, report: fromHex(one.report) })),
    withdrawn: found.withdrawn,
  };
}

/** What is kept of a device whose person has withdrawn. */
export function withdrawnState(): State {
  return { secret: new Uint8Array(0), clock: null, entries: new Map(), outbox: [], withdrawn: true };
}

/** @throws DeviceError the person has withdrawn. */
export function requireNoWithdrawal(state: State): void {
  if (!state.withdrawn) return;
  throw new DeviceError(
    "E-DEVICE-WITHDRAWN",
    "the person of this device has withdrawn, and it reports nothing any more",
    "Ask the person; a device in another store would draw its permanent responses again, and spend up to ε∞ once " +
      "more for each value.",
  );
}

function damaged(why: string): DeviceError {
  return new DeviceError(
    "E-DEVICE-STATE-DAMAGED",
    `the device's state is damaged: ${why}; nothing is reported, because a new draw would spend the device's ` +
      "privacy again",
    "Restore it from a copy; an older one will do.",
  );
}
