/** Which epochs a device may report: each of them once, in order, whatever its clock shows (docs/wire.md). */

import type { Definition } from "./definition.js";
import { DeviceError } from "./errors.js";
import type { Entry, Span } from "./state.js";

/** Spans of a collection. */
const MOST = 8;
/**
 * Seconds. A clock that was doubted is believed once it has gone on for so long, and one that is set back by more takes
 * the device back to epochs that it jumped over.
 */
const DAY = 86_400;

type Epochs = Definition["epochs"];

/**
 * Adds an epoch that is in no span, with its report. Reports of the epochs before it are forgotten. Those of epochs
 * after it are kept, since the clock may come to them again.
 */
export function addEpoch(entry: Entry, epoch: number, report: Uint8Array): void {
  const before = entry.spans.find(({ last }) => last === epoch - 1);
  const current = { first: before ? before.first : epoch, last: epoch, report };
  const others = entry.spans
    .filter((one) => one !== before)
    .map((one) => (one.last < epoch ? { ...one, report: null } : one));
  entry.spans = [...(others.length === MOST ? joined(others, epoch) : others), current];
}

/**
 * One span less: the two with the fewest epochs between them become one, with the later one's report. Not two that have
 * the epoch between them, which would be lost among their epochs.
 */
function joined(spans: Span[], epoch: number): Span[] {
  const ordered = [...spans].sort((a, b) => a.first - b.first);
  const gap = (i: number): number => {
    const [lower, upper] = [ordered[i], ordered[i + 1]];
    return lower.last < epoch && epoch < upper.first ? Infinity : upper.first - lower.last;
  };
  let least = 0;
  for (let i = 1; i < ordered.length - 1; i++) if (gap(i) < gap(least)) least = i;
  const [lower, upper] = ordered.slice(least, least + 2);
  ordered.splice(least, 2, { ...upper, first: lower.first });
  return ordered;
}

/**
 * No epoch is drawn for again, and an earlier one only where the later ones have not begun by the clock: by a day, when
 * the clock is set back. Whoever was ahead by less waits, and a clock that wavers takes no device back.
 *
 * @throws DeviceError E-DEVICE-EPOCH.
 */
export function requireOpen({ origin, length }: Epochs, spans: Span[], epoch: number, now: number): void {
  const current = spans[spans.length - 1];
  const later = spans.filter(
    // A clock that shows no number takes no device back.
    (one) => one.last > epoch && !(origin + one.first * length > now + (one === current ? DAY : 0)),
  );
  if (later.length > 0) {
    const last = Math.max(...later.map((one) => one.last));
    throw epochError(`epoch ${epoch} lies before epoch ${last}, which was reported`, PASSED);
  }
  if (spans.some((one) => one.first <= epoch && epoch <= one.last)) {
    throw epochError(`epoch ${epoch} was reported, or lies among epochs that were`, PASSED);
  }
}

/**
 * A clock that is far ahead for a moment must spend no report; one that stays there is believed. `clock` is the latest
 * time of an earlier report, null where `now` is not what decides the epoch. An error says that the entry is to be kept
 * as it is now.
 */
export function doubt(
  { origin, length }: Epochs,
  entry: Entry,
  epoch: number,
  now: number,
  { clock, timed, maxJump }: { clock: number | null; timed: boolean; maxJump: number },
): DeviceError | null {
  const current = entry.spans[entry.spans.length - 1];
  let jump = current === undefined ? 0 : (epoch - current.last) * length;
  if (timed && clock !== null) jump = Math.max(jump, now - clock);
  const shown = timed ? Math.floor(now) : origin + epoch * length;
  if (jump <= maxJump || (entry.doubted !== null && shown >= entry.doubted + DAY)) {
    entry.doubted = null;
    return null;
  }
  if (entry.doubted === null || shown < entry.doubted) entry.doubted = shown;
  return new DeviceError(
    "E-DEVICE-CLOCK",
    `epoch ${epoch} lies ${Math.round(jump / DAY)} days after what the device last reported, so that the clock is in ` +
      "doubt",
    "Set the clock. If it is right, ask again: the device believes it once it has shown such times for a day, or at " +
      "once with a larger maxJump.",
  );
}

/** An epoch cannot be reported. */
export function epochError(message: string, remedy: string): DeviceError {
  return new DeviceError("E-DEVICE-EPOCH", message, remedy);
}

const PASSED =
  "Report each epoch once, in order. If the clock is behind, set it. If it was ahead by more than a day, set it and ask " +
  "again: the device goes on with the epochs that it has not reported.";
