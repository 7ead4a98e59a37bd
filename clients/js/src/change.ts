/** What one look at a kept state makes of it: the rules that every store keeps to. */

import { DeviceError } from "./errors.js";
import { packState, type State, unpackState, withdrawnState } from "./state.js";

/** What becomes of the state: the one to keep, if it changes, and a result for the caller. */
export interface Change<Result> {
  keep?: State;
  result: Result;
}

/**
 * How often a sentinel knows the state to have changed; null where there never was a state; an error where it cannot
 * say.
 */
export type Known = number | null | DeviceError;

/** What a store is to do: keep these bytes, unless they are null, and then tell the sentinel the number. */
export interface Turn<Result> {
  keep: Uint8Array | null;
  /** How often the state has changed then; 0 where there is none. */
  changes: number;
  result: Result;
}

/**
 * A change of the state, once it is known to be sound and the newest.
 *
 * @param content what is kept; null where nothing is.
 * @param where for people.
 * @throws DeviceError the state is lost, damaged, older than it was, or of another version; or the sentinel's own.
 */
export function changed<Result>(
  content: Uint8Array | null,
  known: Known,
  where: string,
  change: (state: State | null) => Change<Result>,
): Turn<Result> {
  if (known instanceof DeviceError) throw known;
  if (!content && known !== null) throw lost(where);
  const found = content && unpackState(content);
  const before = found?.changes ?? 0;
  if (known !== null && before < known) throw older(where, before, known);
  const { keep, result } = change(found?.state ?? null);
  if (!keep) return { keep: null, changes: before, result };
  return { keep: packState(keep, before + 1), changes: before + 1, result };
}

/** The state of a person who withdraws, whatever was kept before: damage, loss and age are no obstacle. */
export function withdrawn(content: Uint8Array | null, known: Known): Turn<void> {
  const changes = 1 + Math.max(typeof known === "number" ? known : 0, content ? changesOf(content) : 0);
  return { keep: packState(withdrawnState(), changes), changes, result: undefined };
}

function changesOf(content: Uint8Array): number {
  try {
    return unpackState(content).changes;
  } catch {
    return 0;
  }
}

/** The state is gone, and the sentinel is there. */
export function lost(where: string): DeviceError {
  return new DeviceError(
    "E-DEVICE-STATE-LOST",
    `this device reported before, and its state in ${where} is gone; a new one would draw its permanent responses ` +
      "again, and each new draw spends up to ε∞ once more for the same value",
    "Restore the state from a copy; or remove the sentinel to spend the privacy again.",
  );
}

function older(where: string, changes: number, known: number): DeviceError {
  return new DeviceError(
    "E-DEVICE-STATE-OLDER",
    `the device's state in ${where} is an older copy: it has changed ${changes} times, and the sentinel knows of ` +
      `${known}; what was spent since the copy would be spent again`,
    "Restore the newest state; or remove the sentinel to go on from this one.",
  );
}
