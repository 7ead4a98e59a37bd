/**
 * What a device keeps, as bytes: versioned, numbered, of known length, under digests. Damage is refused, never guessed
 * at; but a report that is damaged while it waits costs itself only.
 *
 * bytes   content
 * 24      the name of the format
 * 2       its version; integers are little-endian
 * 8       how often the state has changed
 * 4       length of the JSON
 * 4       how many reports wait
 * 36 each length and SHA-256 of a report that waits
 * …       JSON, UTF-8
 * 32      SHA-256 of all of the above
 * …       the reports that wait, one after the other
 *
 * A report that waits has 8 bytes for the time at which it is due, 32 for the full digest of its collection, 8 for its
 * epoch, and then its own.
 */

import { equal, fromHex, putInteger, toHex } from "./bytes.js";
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
  /** Reports that waited and were never sent, because too many did. */
  dropped: number;
  /** Reports that waited and were never sent, because they were damaged or gone where they were kept. */
  damaged: number;
  /** Whether the person has withdrawn: nothing is reported any more, and nothing else is kept. */
  withdrawn: boolean;
}

export const VERSION = 1;
const NAME = new TextEncoder().encode("ldpbeam js device state\0");
const HEAD = NAME.length + 18;
const DIGEST = 32;
/** Of a report in the head, and what precedes the bytes of one that waits. */
const LISTED = 4 + DIGEST;
const WAITING = 8 + 32 + 8;

/** The state of a device that never reported. */
export function newState(): State {
  return { ...emptyState(), secret: systemBytes(32) };
}

/** What is kept of a device whose person has withdrawn. */
export function withdrawnState(): State {
  return { ...emptyState(), withdrawn: true };
}

function emptyState(): State {
  return {
    secret: new Uint8Array(0),
    clock: null,
    entries: new Map(),
    outbox: [],
    dropped: 0,
    damaged: 0,
    withdrawn: false,
  };
}

/** @param changes how often the state has changed, with this time. */
export function packState(state: State, changes: number, version = VERSION): Uint8Array {
  const { outbox, ...rest } = state;
  const body = new TextEncoder().encode(
    JSON.stringify({
      ...rest,
      secret: toHex(state.secret),
      entries: Array.from(state.entries, ([fullDigest, { spans, doubted }]) => ({
        fullDigest,
        spans: spans.map((one) => ({ ...one, report: one.report && toHex(one.report) })),
        doubted,
      })),
    }),
  );
  const reports = outbox.map(packWaiting);
  const list = HEAD + LISTED * reports.length;
  const end = list + body.length;
  const content = new Uint8Array(end + DIGEST + reports.reduce((sum, { length }) => sum + length, 0));
  content.set(NAME);
  putInteger(content, NAME.length, 2, version);
  putInteger(content, NAME.length + 2, 8, changes);
  putInteger(content, NAME.length + 10, 4, body.length);
  putInteger(content, NAME.length + 14, 4, reports.length);
  let at = end + DIGEST;
  reports.forEach((report, i) => {
    putInteger(content, HEAD + LISTED * i, 4, report.length);
    content.set(sha256(report), HEAD + LISTED * i + 4);
    content.set(report, at);
    at += report.length;
  });
  content.set(body, list);
  content.set(sha256(content.subarray(0, end)), end);
  return content;
}

/** A state as it was kept. */
export interface Kept {
  state: State;
  /** How often it has changed. */
  changes: number;
}

/**
 * The state in kept bytes. Reports that are damaged or cut off do not wait any more, and are counted in it.
 *
 * @throws DeviceError E-DEVICE-STATE-DAMAGED, or E-DEVICE-STATE-VERSION for a sound state of another version.
 */
export function unpackState(content: Uint8Array): Kept {
  if (content.length < HEAD + DIGEST || NAME.some((byte, i) => content[i] !== byte)) {
    throw damaged("it is cut short or no state");
  }
  const head = new DataView(content.buffer, content.byteOffset, content.length);
  const waiting = head.getUint32(NAME.length + 14, true);
  const list = HEAD + LISTED * waiting;
  const end = list + head.getUint32(NAME.length + 10, true);
  if (!equal(sha256(content.subarray(0, end)), content.subarray(end, end + DIGEST))) {
    throw damaged("its digest does not fit");
  }
  const version = head.getUint16(NAME.length, true);
  if (version !== VERSION) {
    throw new DeviceError(
      "E-DEVICE-STATE-VERSION",
      `the device's state has format ${version}, and this program reads format ${VERSION}`,
      "Use the version of the program that wrote it, or a newer one.",
    );
  }
  const outbox: Waiting[] = [];
  let at = end + DIGEST;
  for (let listed = HEAD; listed < list; listed += LISTED) {
    const report = content.subarray(at, (at += head.getUint32(listed, true)));
    if (equal(sha256(report), content.subarray(listed + 4, listed + LISTED))) outbox.push(unpackWaiting(report));
  }
  if (at < content.length) throw damaged("its length is not the one it states");
  const found = JSON.parse(new TextDecoder().decode(content.subarray(list, end)));
  const state = {
    ...found,
    secret: fromHex(found.secret),
    entries: new Map(
      found.entries.map((one: { fullDigest: string; spans: (Span & { report: string | null })[]; doubted: number | null }) => [
        one.fullDigest,
        {
          spans: one.spans.map((span) => ({ ...span, report: span.report === null ? null : fromHex(span.report) })),
          doubted: one.doubted,
        },
      ]),
    ),
    outbox,
    damaged: found.damaged + waiting - outbox.length,
  };
  return { state, changes: Number(head.getBigUint64(NAME.length + 2, true)) };
}

function packWaiting({ due, fullDigest, epoch, report }: Waiting): Uint8Array {
  const content = new Uint8Array(WAITING + report.length);
  putInteger(content, 0, 8, due);
  content.set(fromHex(fullDigest), 8);
  putInteger(content, 40, 8, epoch);
  content.set(report, WAITING);
  return content;
}

function unpackWaiting(content: Uint8Array): Waiting {
  const head = new DataView(content.buffer, content.byteOffset, content.length);
  return {
    due: Number(head.getBigUint64(0, true)),
    fullDigest: toHex(content.subarray(8, 40)),
    epoch: Number(head.getBigUint64(40, true)),
    report: Uint8Array.from(content.subarray(WAITING)), // a copy: slice of a Buffer is none
  };
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
    "Restore the newest copy of it; for an older one, remove the sentinel too.",
  );
}
