/** Reports that wait, and how they are sent: at least once, in the same bytes (docs/wire.md, "Over HTTP"). */

import { DeviceError } from "./errors.js";
import { systemBytes } from "./randomness.js";
import type { Waiting } from "./state.js";
import { milliseconds, type Store } from "./store.js";

/** How many reports waited and were never sent, since the device began. */
export interface Dropped {
  /** Too many waited. */
  full: number;
  /** They were damaged where they were kept, or gone from there. */
  damaged: number;
}

/**
 * The reports that wait in a device's state: handed out again until they are acknowledged. One that is damaged where it
 * is kept is never handed out: it is dropped, and counted.
 */
export class Outbox {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** All reports that wait, the first due first. */
  waiting(): Promise<Waiting[]> {
    return this.#store.update((state) => ({ result: state ? state.outbox.sort((a, b) => a.due - b.due) : [] }));
  }

  /** How many reports were dropped. */
  dropped(): Promise<Dropped> {
    return this.#store.update((state) => ({ result: { full: state?.dropped ?? 0, damaged: state?.damaged ?? 0 } }));
  }

  /** Whether a report still waits: another program may have sent it meanwhile, or the person withdrawn. */
  async has(one: Waiting): Promise<boolean> {
    return (await this.waiting()).some((other) => same(one, other));
  }

  /** A collector has the report, or will never take it: forget it. */
  acknowledge(sent: Waiting): Promise<void> {
    return this.#store.update((state) => {
      const left = state?.outbox.filter((one) => !same(one, sent));
      if (!state || !left || left.length === state.outbox.length) return { result: undefined };
      return { keep: { ...state, outbox: left }, result: undefined };
    });
  }
}

function same(one: Waiting, other: Waiting): boolean {
  return one.fullDigest === other.fullDigest && one.epoch === other.epoch;
}

/** Reports of later epochs, which a clock made that was ahead, have nothing to wait for: due now. */
export function hasten(waiting: Waiting[], fullDigest: string, epoch: number, now: number): void {
  for (const one of waiting) {
    if (one.fullDigest === fullDigest && one.epoch > epoch) one.due = Math.min(one.due, now);
  }
}

/** Refusals that say nothing against the report. */
const LATER = new Set([408, 425, 429]);
/** What a collector says against a report itself, which it would say again. */
const VERDICTS = new Set([
  "malformed",
  "wrong_length",
  "unknown_collection",
  "foreign_epoch",
  "retired_collection",
  "oversize",
]);
/** A collector cannot ask for a longer pause, seconds. */
const LONGEST = 86_400;

export interface SenderOptions {
  /** Seconds to wait for an answer. */
  timeout?: number;
  /** Seconds after a first failure; each further one doubles the pause, up to a day. */
  firstPause?: number;
  /** Seconds since 1970. */
  clock?: () => number;
}

/**
 * Posts reports that are due, one by one, until the collector does not take them. A program calls `sendDue` now
 * and then. When a report is sent depends on the time drawn for it and on the collector's answers, never on a value.
 */
export class Sender {
  /** Reports that the collector acknowledged. */
  sent = 0;
  /** Reports that it refused for good, by its reason. */
  readonly dropped = new Map<string, number>();
  /** Attempts since the last success. */
  failures = 0;
  /** Nothing is sent before, seconds since 1970. */
  nextAttempt = 0;

  readonly #outbox: Outbox;
  readonly #url: string;
  readonly #timeout: number;
  readonly #firstPause: number;
  readonly #clock: () => number;

  /** @param url of the collector, such as https://collect.example.com/v1/reports. */
  constructor(outbox: Outbox, url: string, options: SenderOptions = {}) {
    if (!/^https?:\/\//.test(url)) {
      throw new DeviceError(
        "E-DEVICE-COLLECTOR",
        "the collector's address is not an http or https URL",
        "Write it like https://collect.example.com/v1/reports.",
      );
    }
    this.#outbox = outbox;
    this.#url = url;
    this.#timeout = options.timeout ?? 30;
    this.#firstPause = options.firstPause ?? 2;
    this.#clock = options.clock ?? (() => Date.now() / 1000);
  }

  /**
   * Sends the reports that are due; how many were acknowledged. A failure is no exception: the report stays, and
   * `nextAttempt` says when it is tried again.
   */
  async sendDue(): Promise<number> {
    const now = this.#clock();
    // A pause is never longer; the clock was ahead when this one began.
    if (now < this.nextAttempt && this.nextAttempt <= now + LONGEST) return 0;
    let acknowledged = 0;
    for (const waiting of await this.#outbox.waiting()) {
      if (waiting.due > now) break;
      if (!(await this.#outbox.has(waiting))) continue;
      const { status, retryAfter, reason } = await this.#post(waiting.report);
      if (status >= 200 && status < 300) {
        acknowledged++;
        this.sent++;
        this.failures = 0;
      } else if (status >= 400 && status < 500 && !LATER.has(status) && reason) {
        this.dropped.set(reason, (this.dropped.get(reason) ?? 0) + 1);
      } else {
        this.#pause(retryAfter);
        break;
      }
      await this.#outbox.acknowledge(waiting);
    }
    return acknowledged;
  }

  /** Status 0 where there is no answer. */
  async #post(report: Uint8Array): Promise<{ status: number; retryAfter: string; reason: string }> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      const waited = new AbortController();
      timer = setTimeout(() => waited.abort(), milliseconds(this.#timeout));
      const answer = await fetch(this.#url, {
        method: "POST",
        headers: { "Content-Type": "application/x-protobuf" },
        body: report as Uint8Array<ArrayBuffer>,
        // A redirected POST may become a GET without the report, whose answer would look like an acknowledgement.
        redirect: "error",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        signal: waited.signal,
      });
      const reason = reasonOf(await answer.text());
      return { status: answer.status, retryAfter: answer.headers.get("Retry-After") ?? "", reason };
    } catch {
      return { status: 0, retryAfter: "", reason: "" };
    } finally {
      clearTimeout(timer);
    }
  }

  /** Twice the last pause, of which half is drawn; longer where the collector asks for it. */
  #pause(retryAfter: string): void {
    const longest = Math.min(this.#firstPause * 2 ** Math.min(this.failures, 40), LONGEST);
    this.failures++;
    const share = new DataView(systemBytes(4).buffer).getUint32(0) / 2 ** 32;
    this.nextAttempt = this.#clock() + Math.max((longest * (1 + share)) / 2, this.#askedFor(retryAfter));
  }

  /** Seconds of a Retry-After header, a number or a date; 0 for anything else. */
  #askedFor(text: string): number {
    const seconds = /^[0-9]+$/.test(text) ? Number(text) : Date.parse(text) / 1000 - this.#clock();
    return Number.isNaN(seconds) ? 0 : Math.min(Math.max(seconds, 0), LONGEST);
  }
}

/** A collector's verdict; empty for a mistyped path, or where somebody else answered, such as a proxy. */
function reasonOf(body: string): string {
  try {
    const { reason } = JSON.parse(body) as { reason?: unknown };
    return typeof reason === "string" && VERDICTS.has(reason) ? reason : "";
  } catch {
    return "";
  }
}
