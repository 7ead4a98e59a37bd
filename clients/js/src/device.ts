/** A device that turns its value of an epoch into the bytes of one report (docs/wire.md). */

import { toHex } from "./bytes.js";
import { lost } from "./change.js";
import { type Definition, parseDefinition } from "./definition.js";
import { DeviceError } from "./errors.js";
import { addEpoch, doubt, epochError, requireOpen } from "./order.js";
import { hasten, Outbox } from "./outbox.js";
import { type Protocol, protocolOf } from "./protocols.js";
import { Derivation, DerivedSource, hashOf, Purpose, WHOLE } from "./randomness.js";
import { digestOf, type Slice } from "./slices.js";
import { newState, requireNoWithdrawal } from "./state.js";
import type { Store } from "./store.js";
import { fingerprintsOf, indexOf, inOrder, type Value, type Values, valueError } from "./values.js";
import { encodeReport } from "./wire.js";

export interface DeviceOptions {
  /** Reports that wait to be sent at most, the oldest are dropped for newer ones; 0 to keep none. */
  outbox?: number;
  /**
   * Seconds, from the report on, from which its sending time is drawn, at most the rest of its epoch; Infinity for all
   * of that. Without it a report is due at once, and the collector learns the second of the report.
   */
  spread?: number;
  /**
   * Seconds by which an epoch, or the clock, may be after the last one. One that is further is refused at first, and
   * believed once the clock has shown such times for a day.
   */
  maxJump?: number;
  /** Seconds since 1970. */
  clock?: () => number;
  /** What every report says in clear, unless `report` is given another slice. */
  slice?: Slice | null;
}

/**
 * One device's side of a collection. Its state is durable before a report that needs it is returned, and a device
 * whose state is lost or damaged refuses to report.
 */
export class Device {
  readonly #definition: Definition;
  readonly #protocol: Protocol;
  readonly #store: Store;
  readonly #options: Required<DeviceOptions>;
  readonly #fullDigest: string;
  readonly #outbox: Outbox | null;

  private constructor(definition: Definition, store: Store, options: Required<DeviceOptions>) {
    this.#definition = definition;
    this.#protocol = protocolOf(definition.protocol);
    this.#store = store;
    this.#options = options;
    this.#fullDigest = toHex(definition.fullDigest);
    this.#outbox = options.outbox > 0 ? new Outbox(store) : null;
  }

  /**
   * The device whose state is in a store, or a new one where there never was a state. A store may serve several
   * collections, and several programs at once.
   *
   * @param definition what `ldpbeam definition` prints, as parsed JSON; part of the program, never of a stranger.
   * @throws DeviceError the definition is damaged; the slice is none of the collection's; the person has withdrawn; the state is lost, damaged, older than it
   *   was, or of another version.
   */
  static async open(definition: unknown, store: Store, options: DeviceOptions = {}): Promise<Device> {
    const parsed = parseDefinition(definition);
    const spread = options.spread ?? 0;
    if (!(spread >= 0)) throw new RangeError("a spread is 0 or a positive number of seconds");
    if (options.slice) digestOf(parsed, options.slice);
    await store.update((state) => {
      if (!state) return { keep: newState(), result: undefined };
      requireNoWithdrawal(state);
      return { result: undefined };
    });
    return new Device(parsed, store, {
      outbox: options.outbox ?? 256,
      spread,
      maxJump: options.maxJump ?? 400 * 86_400,
      clock: options.clock ?? (() => Date.now() / 1000),
      slice: options.slice ?? null,
    });
  }

  /**
   * The reports that wait to be sent.
   *
   * @throws DeviceError the device keeps none.
   */
  get outbox(): Outbox {
    if (this.#outbox) return this.#outbox;
    throw new DeviceError("E-DEVICE-OUTBOX", "this device keeps no reports that wait", "Open it with outbox above 0.");
  }

  /** The epoch that the clock says. */
  get epoch(): number {
    return this.#epochAt(this.#options.clock());
  }

  /**
   * A serialised Report; kept in the outbox, where there is one. One report per epoch: asked again for the last
   * one, also by another program after a crash, the device answers with the same bytes, whatever the value is by
   * then.
   *
   * Epochs go forward. Where the clock says that an epoch which was reported has not begun, the clock was ahead: the
   * device goes on with the epochs before it that it has not reported, and what waits about the later one is due at
   * once.
   *
   * @param value what the device holds, see `Value`; a label that is not listed is the collection's `other`.
   * @param epoch the one that the clock says, unless given.
   * @param slice of this report; that of `open` unless given. Nothing but the report's digest depends on it.
   * @throws DeviceError the value is none of the domain's; the slice is none of the collection's; the epoch is none of
   *   the collection's, was reported or passed over, or lies too far after the last one; the person has withdrawn; the
   *   state is lost, damaged, older than it was, or cannot be kept. No text contains the value, or a label of the slice.
   */
  async report(value: Values, epoch?: number, slice?: Slice): Promise<Uint8Array> {
    const values = this.#indices(value);
    const digest = digestOf(this.#definition, slice ?? this.#options.slice);
    const now = this.#options.clock();
    const asked = epoch ?? this.#epochAt(now);
    if (!Number.isSafeInteger(asked) || asked < 0 || asked >= this.#definition.epochs.count) {
      throw epochError(`epoch ${asked} is none of the collection's`, "Check the clock and the origin.");
    }
    const answer = await this.#store.update<{ report: Uint8Array } | DeviceError>((state) => {
      if (!state) throw lost("the store"); // emptied under the device, with its sentinel
      requireNoWithdrawal(state);
      const entry = state.entries.get(this.#fullDigest) ?? { spans: [], doubted: null };
      const again = entry.spans.find(({ last }) => last === asked)?.report;
      if (again) return { result: { report: again } };
      const timed = epoch === undefined;
      const { epochs } = this.#definition;
      requireOpen(epochs, entry.spans, asked, now);
      state.entries.set(this.#fullDigest, entry);
      const { clock } = state;
      const doubted = doubt(epochs, entry, asked, now, { clock, timed, maxJump: this.#options.maxJump });
      if (doubted) return { keep: state, result: doubted };
      const derivation = new Derivation(state.secret, this.#definition.fullDigest);
      const report = this.#drawn(derivation, values, asked, digest);
      const current = entry.spans[entry.spans.length - 1];
      const back = current !== undefined && asked < current.first;
      addEpoch(entry, asked, report);
      // The time of a clock that was ahead would hide its next jump.
      if (timed) state.clock = back ? Math.floor(now) : Math.max(Math.floor(now), clock ?? 0);
      if (this.#outbox) {
        if (back) hasten(state.outbox, this.#fullDigest, asked, Math.max(0, Math.floor(now)));
        const due = this.#due(derivation, asked, now);
        state.outbox.sort((a, b) => a.due - b.due);
        state.dropped += state.outbox.splice(0, state.outbox.length + 1 - this.#options.outbox).length;
        state.outbox.push({ due, fullDigest: this.#fullDigest, epoch: asked, report });
      }
      return { keep: state, result: { report } };
    });
    if (answer instanceof DeviceError) throw answer;
    return answer.report;
  }

  /**
   * The person opts out: all collections of the store end here. Deleted are the secret, so that no permanent response
   * can be derived again, the last reports, and every report that waits; a state that is damaged, lost or older is no
   * obstacle. A mark stays that the person has withdrawn:
   * `report` and `open` refuse from then on, since a new device would draw its permanent responses again. A report that
   * is just being sent may still arrive.
   *
   * @throws DeviceError the state cannot be kept; call it again.
   */
  async withdraw(): Promise<void> {
    await this.#store.withdraw();
  }

  #epochAt(now: number): number {
    const { origin, length } = this.#definition.epochs;
    return Math.floor((now - origin) / length);
  }

  #drawn(derivation: Derivation, values: number[], epoch: number, digest: Uint8Array): Uint8Array {
    const { attributes, strings } = this.#definition;
    const root = attributes || strings ? WHOLE : 0;
    const kept = this.#protocol.drawOnce(new DerivedSource(derivation, Purpose.ONCE, 0, root));
    const fresh = new DerivedSource(derivation, Purpose.FRESH, epoch, root, hashOf(values));
    return encodeReport({
      digest,
      epoch,
      reportId: derivation.stream(Purpose.REPORT_ID, 0, epoch).word(),
      payload: this.#protocol.payload(values, kept, fresh),
    });
  }

  /** A uniform time in the spread, but in what is left of the epoch; at once where nothing is. */
  #due(derivation: Derivation, epoch: number, now: number): number {
    const { origin, length } = this.#definition.epochs;
    const begun = Math.max(0, Math.floor(now));
    const left = Math.min(Math.max(0, origin + (epoch + 1) * length - begun), this.#options.spread);
    const share = derivation.stream(Purpose.SENDING_TIME, 0, epoch).word();
    return begun + Number((BigInt(Math.floor(left)) * share) >> 64n);
  }

  /** One index per domain, or the fingerprints of a text. */
  #indices(value: Values): number[] {
    const { domains, attributes, strings, protocol } = this.#definition;
    if (strings) return fingerprintsOf(value, strings);
    const held = attributes ? inOrder(value, attributes) : [value as Value];
    const indices = held.map((one, i) => indexOf(one, domains[i]));
    if (protocol.encoding === "together" && indices.reduce((sum, one) => sum + one, 0) > protocol.sumLimit) {
      throw valueError(`the counters of a device must add up to at most ${protocol.sumLimit}`);
    }
    return indices;
  }
}
