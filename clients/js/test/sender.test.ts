/** Sending over real HTTP: at least once, the same bytes, until the collector has them. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { toHex } from "../src/bytes.js";
import { DeviceError } from "../src/errors.js";
import { Sender } from "../src/outbox.js";
import type { Store } from "../src/store.js";
import { Clock, HOUR, open, ORIGIN, SECRET, storeWith } from "./devices.js";

interface Seen {
  body: string;
  headers: IncomingMessage["headers"];
}

/** A collector that answers as scripted, 204 when the script has run out. */
async function collector(t: TestContext, answers: ((response: ServerResponse) => void)[] = []): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      seen.push({ body: Buffer.concat(parts).toString("hex"), headers: request.headers });
      const answer = answers.shift();
      if (answer) answer(response);
      else response.writeHead(204).end();
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/reports`, seen };
}

const status = (code: number, headers: Record<string, string> = {}, body = "{}") => (response: ServerResponse) => {
  response.writeHead(code, headers).end(body);
};
const verdict = (code: number, reason: string) => status(code, {}, JSON.stringify({ reason }));

async function device(epochs: number): Promise<{ clock: Clock; store: Store; reports: string[]; outbox: any }> {
  const clock = new Clock(ORIGIN);
  const store = await storeWith(SECRET);
  const opened = await open("l_grr", store, { clock: clock.read, spread: Infinity });
  const reports = [];
  for (let epoch = 0; epoch < epochs; epoch++, clock.seconds += HOUR) reports.push(toHex(await opened.report(1)));
  return { clock, store, reports, outbox: opened.outbox };
}

test("nothing is posted once the person has withdrawn, nor what another program has sent", async (t) => {
  const { clock, store, reports, outbox } = await device(4);
  const other = await open("l_grr", store);
  const meanwhile = (act: () => Promise<void>) => async (response: ServerResponse) => {
    await act();
    response.writeHead(204).end();
  };
  const sentByAnother = meanwhile(async () => outbox.acknowledge((await outbox.waiting())[1]));
  const { url, seen } = await collector(t, [sentByAnother, meanwhile(() => other.withdraw())]);
  const sender = new Sender(outbox, url, { clock: clock.read });
  assert.equal(await sender.sendDue(), 2);
  assert.deepEqual(seen.map(({ body }) => body), [reports[0], reports[2]]);
  assert.equal(await sender.sendDue(), 0);
});

test("reports that are due are posted as they are, and forgotten once they are safe", async (t) => {
  const { url, seen } = await collector(t);
  const { clock, reports, outbox } = await device(3);
  const sender = new Sender(outbox, url, { clock: clock.read });
  clock.seconds = ORIGIN - 1;
  assert.equal(await sender.sendDue(), 0);
  clock.seconds = ORIGIN + 2 * HOUR;
  assert.equal(await sender.sendDue(), 2);
  clock.seconds += HOUR;
  assert.equal(await sender.sendDue(), 1);
  assert.equal(await sender.sendDue(), 0);
  assert.deepEqual(seen.map(({ body }) => body), reports);
  assert.deepEqual([sender.sent, (await outbox.waiting()).length], [3, 0]);
  for (const { headers } of seen) {
    assert.equal(headers["content-type"], "application/x-protobuf");
    assert.deepEqual([headers.cookie, headers.referer, headers.authorization], [undefined, undefined, undefined]);
  }
});

test("what the collector cannot take now comes again, after a pause that grows", async (t) => {
  const broken = (response: ServerResponse): void => void response.socket!.destroy();
  const away = status(307, { Location: "/elsewhere" });
  const { url, seen } = await collector(t, [status(503), status(429), broken, away, status(408), status(500)]);
  const { clock, reports, outbox } = await device(1);
  const sender = new Sender(outbox, url, { clock: clock.read });
  for (let failure = 0; failure < 6; failure++) {
    assert.equal(await sender.sendDue(), 0);
    assert.equal(sender.failures, failure + 1);
    const pause = sender.nextAttempt - clock.seconds;
    assert.ok(pause >= 2 ** failure && pause <= 2 ** (failure + 1), `${pause} s`);
    clock.seconds = sender.nextAttempt - 0.001;
    assert.equal(await sender.sendDue(), 0);
    assert.equal(seen.length, failure + 1);
    clock.seconds = sender.nextAttempt;
  }
  assert.equal(await sender.sendDue(), 1);
  assert.equal(sender.failures, 0);
  assert.deepEqual(seen.map(({ body }) => body), Array(7).fill(reports[0]));
});

test("an answer that is neither yes nor no acknowledges nothing", async (t) => {
  for (const code of [302, 303, 304, 307]) {
    const { url, seen } = await collector(t, [status(code, { Location: "/elsewhere" })]);
    const { clock, outbox } = await device(1);
    assert.equal(await new Sender(outbox, url, { clock: clock.read }).sendDue(), 0);
    assert.deepEqual([seen.length, (await outbox.waiting()).length], [1, 1], String(code));
  }
});

test("an acknowledged report leaves those of other collections alone", async (t) => {
  const { url } = await collector(t, [status(204), status(503)]);
  const { clock, store, outbox } = await device(1);
  await (await open("grr", store, { clock: clock.read })).report(1, 0);
  assert.equal(await new Sender(outbox, url, { clock: clock.read }).sendDue(), 1);
  assert.equal((await outbox.waiting()).length, 1);
});

test("Retry-After is obeyed, in both forms, up to a day", async (t) => {
  const { clock, outbox } = await device(1);
  const at = new Date((clock.seconds + 500) * 1000).toUTCString();
  for (const [header, least, most] of [["70", 70, 70], [at, 500, 500], ["999999999", 86400, 86400], ["soon", 1, 2]] as const) {
    const { url } = await collector(t, [status(503, { "Retry-After": header })]);
    const sender = new Sender(outbox, url, { clock: clock.read });
    await sender.sendDue();
    const pause = sender.nextAttempt - clock.seconds;
    assert.ok(pause >= least && pause <= most, `${header}: ${pause}`);
  }
});

test("what is refused for good is dropped and counted, and the next one goes", async (t) => {
  const { url, seen } = await collector(t, [verdict(400, "wrong_length"), verdict(404, "unknown_collection")]);
  const { clock, outbox } = await device(3);
  const sender = new Sender(outbox, url, { clock: clock.read });
  assert.equal(await sender.sendDue(), 1);
  assert.deepEqual([...sender.dropped], [["wrong_length", 1], ["unknown_collection", 1]]);
  assert.deepEqual([seen.length, (await outbox.waiting()).length, sender.failures], [3, 0, 0]);
});

test("what is not the collector's verdict costs no report", async (t) => {
  for (const [code, body] of [[404, "not found"], [403, "{}"], [404, '{"reason": 7}'], [404, '{"reason": "not_found"}'], [400, '"reason"']] as const) {
    const { url } = await collector(t, [status(code, {}, body)]);
    const { clock, outbox } = await device(1);
    const sender = new Sender(outbox, url, { clock: clock.read });
    assert.equal(await sender.sendDue(), 0);
    assert.deepEqual([sender.dropped.size, (await outbox.waiting()).length, sender.failures], [0, 1, 1]);
  }
});

test("a sent report that could not be acknowledged is sent again, the same", async (t) => {
  const { url, seen } = await collector(t);
  const { clock, store, outbox } = await device(1);
  const update = store.update.bind(store);
  let calls = 0;
  store.update = async (change) => {
    if (++calls === 3) throw new Error("the machine stops here"); // after a list and a look at the report
    return update(change);
  };
  await assert.rejects(new Sender(outbox, url, { clock: clock.read }).sendDue());
  assert.equal(await new Sender(outbox, url, { clock: clock.read }).sendDue(), 1);
  assert.equal(seen.length, 2);
  assert.equal(seen[0].body, seen[1].body);
});

test("a collector that does not answer in time is none", async (t) => {
  const { url } = await collector(t, [() => undefined]);
  const { clock, outbox } = await device(1);
  const sender = new Sender(outbox, url, { clock: clock.read, timeout: 0.2 });
  assert.equal(await sender.sendDue(), 0);
  assert.equal(sender.failures, 1);
  assert.throws(() => new Sender(outbox, "file:///x"), (error) => error instanceof DeviceError && error.code === "E-DEVICE-COLLECTOR");
});

/** Answers in place of the network, and what it was asked. */
function network(t: TestContext, answer: () => Response | Promise<Response>): { url: unknown; options: RequestInit }[] {
  const asked: { url: unknown; options: RequestInit }[] = [];
  t.mock.method(globalThis, "fetch", async (url: unknown, options: RequestInit) => {
    asked.push({ url, options });
    return answer();
  });
  return asked;
}

/** A drawn share of a pause: 0, or just below 1. */
function share(t: TestContext, byte: number): void {
  t.mock.method(globalThis.crypto, "getRandomValues", (bytes: Uint8Array) => bytes.fill(byte));
}

const URL_OF = "https://collect.example/v1/reports";

test("what the browser is asked for: no cookie, no referrer, no redirect, nothing from a cache", async (t) => {
  const asked = network(t, () => new Response(null, { status: 204 }));
  const { clock, reports, outbox } = await device(1);
  assert.equal(await new Sender(outbox, URL_OF, { clock: clock.read }).sendDue(), 1);
  const { body, signal, ...options } = asked[0].options;
  assert.deepEqual(options, {
    method: "POST",
    headers: { "Content-Type": "application/x-protobuf" },
    redirect: "error",
    credentials: "omit",
    referrerPolicy: "no-referrer",
    cache: "no-store",
  });
  assert.deepEqual([asked.length, asked[0].url, toHex(body as Uint8Array)], [1, URL_OF, reports[0]]);
  assert.ok(signal instanceof AbortSignal && !signal.aborted);
});

test("which answers are yes, no for good, and later: each bound from both sides", async (t) => {
  const no = '{"reason": "oversize"}';
  const outcome = async (code: number, body: string): Promise<string> => {
    const found = { status: code, headers: new Headers(), text: async () => body } as Response;
    network(t, () => found);
    const { clock, outbox } = await device(1);
    const sender = new Sender(outbox, URL_OF, { clock: clock.read });
    await sender.sendDue();
    t.mock.restoreAll();
    const waits = (await outbox.waiting()).length;
    assert.equal(waits + sender.sent + sender.dropped.size, 1);
    assert.equal(sender.failures, waits);
    return sender.sent ? "sent" : waits ? "waits" : "dropped";
  };
  for (const code of [200, 201, 204, 299]) assert.equal(await outcome(code, no), "sent", String(code));
  for (const code of [0, 100, 199, 300, 304, 399, 408, 425, 429, 500, 503, 599]) assert.equal(await outcome(code, no), "waits", String(code));
  for (const code of [400, 404, 407, 409, 424, 426, 428, 430, 499]) assert.equal(await outcome(code, no), "dropped", String(code));
  for (const reason of ["malformed", "wrong_length", "unknown_collection", "foreign_epoch", "retired_collection", "oversize"]) {
    assert.equal(await outcome(400, JSON.stringify({ reason })), "dropped", reason);
  }
  for (const body of ["", "null", "{}", '{"reason": ["oversize"]}', '{"reason": "late"}', '{"reason": "OVERSIZE"}']) {
    assert.equal(await outcome(400, body), "waits", body);
  }
});

test("pauses are between half of the longest and all of it, and a day at most", async (t) => {
  const { clock, outbox } = await device(1);
  for (const [byte, lowest] of [[0, true], [255, false]] as const) {
    network(t, () => new Response(null, { status: 503 }));
    share(t, byte);
    const sender = new Sender(outbox, URL_OF, { clock: clock.read, firstPause: 3 });
    for (let failure = 0; failure < 60; failure++) {
      await sender.sendDue();
      const longest = Math.min(3 * 2 ** failure, 86_400);
      const pause = sender.nextAttempt - clock.seconds;
      if (lowest) assert.equal(pause, longest / 2);
      else assert.ok(pause > longest * 0.999_999 && pause <= longest, `${pause}`);
      clock.seconds = sender.nextAttempt;
    }
    t.mock.restoreAll();
  }
});

test("how long a collector may ask for", async (t) => {
  const { clock, outbox } = await device(1);
  clock.seconds = Math.floor(clock.seconds);
  const date = (after: number): string => new Date((clock.seconds + after) * 1000).toUTCString();
  for (const [asked, pause] of [
    ["2", 2], ["3", 3], ["86399", 86_399], ["86400", 86_400], ["86401", 86_400], ["9".repeat(400), 86_400],
    [date(3), 3], [date(86_400), 86_400], [date(86_401), 86_400], [date(-5), 1], ["0", 1], ["", 1], ["-7", 1], ["x", 1],
  ] as const) {
    network(t, () => new Response(null, { status: 429, headers: { "Retry-After": asked } }));
    share(t, 0);
    const sender = new Sender(outbox, URL_OF, { clock: clock.read });
    await sender.sendDue();
    assert.equal(sender.nextAttempt - clock.seconds, pause, asked);
    t.mock.restoreAll();
  }
});

test("a pause that began while the clock was ahead ends with that", async (t) => {
  const asked = network(t, () => new Response(null, { status: 503, headers: { "Retry-After": "86400" } }));
  const { clock, outbox } = await device(1);
  const sender = new Sender(outbox, URL_OF, { clock: clock.read });
  const right = clock.seconds;
  clock.seconds = right + 1000;
  await sender.sendDue();
  for (const [seconds, sends] of [[999, true], [1000, false], [1001, false], [1000 + 86_399.9, false], [1000 + 86_400, true]] as const) {
    const before = asked.length;
    sender.nextAttempt = right + 1000 + 86_400;
    clock.seconds = right + seconds;
    await sender.sendDue();
    assert.equal(asked.length - before, sends ? 1 : 0, `${seconds}`);
  }
});

test("a report is sent in the second in which it is due", async (t) => {
  network(t, () => new Response(null, { status: 204 }));
  const { clock, outbox } = await device(1);
  const [{ due }] = await outbox.waiting();
  const sender = new Sender(outbox, URL_OF, { clock: clock.read });
  clock.seconds = due - 0.001;
  assert.equal(await sender.sendDue(), 0);
  clock.seconds = due;
  assert.equal(await sender.sendDue(), 1);
});

test("a collector may take as long as it likes", async (t) => {
  for (const timeout of [Infinity, 3e6]) {
    const { url } = await collector(t, [(response) => void setTimeout(() => response.writeHead(204).end(), 50)]);
    const { clock, outbox } = await device(1);
    assert.equal(await new Sender(outbox, url, { clock: clock.read, timeout }).sendDue(), 1);
  }
});

test("an answer is waited for for 30 s, and a first pause is 2 s at most, unless others are given", async (t) => {
  network(t, () => new Response(null, { status: 503 }));
  share(t, 255);
  const timers = t.mock.method(globalThis, "setTimeout");
  const { clock, outbox } = await device(1);
  for (const [options, timeout, pause] of [[{}, 30_000, 2], [{ timeout: 7, firstPause: 5 }, 7000, 5]] as const) {
    const sender = new Sender(outbox, URL_OF, { clock: clock.read, ...options });
    await sender.sendDue();
    assert.equal(timers.mock.calls.at(-1)!.arguments[1], timeout);
    assert.equal(Math.round(sender.nextAttempt - clock.seconds), pause);
  }
});

test("a body that does not end is no answer", async (t) => {
  const { url, seen } = await collector(t, [(response) => void response.writeHead(200).write("half")]);
  const { clock, outbox } = await device(1);
  const sender = new Sender(outbox, url, { clock: clock.read, timeout: 0.3 });
  assert.equal(await sender.sendDue(), 0);
  assert.deepEqual([seen.length, sender.failures, (await outbox.waiting()).length], [1, 1, 1]);
});

test("no fetch, or one that throws, costs no report", async (t) => {
  const { clock, outbox } = await device(1);
  const real = globalThis.fetch;
  t.after(() => (globalThis.fetch = real));
  for (const fetch of [undefined, () => { throw new TypeError("no"); }, async () => ({})] as any[]) {
    globalThis.fetch = fetch;
    const sender = new Sender(outbox, URL_OF, { clock: clock.read });
    assert.equal(await sender.sendDue(), 0);
    assert.deepEqual([sender.failures, (await outbox.waiting()).length], [1, 1]);
  }
});

test("http and https, and nothing else", async () => {
  const { outbox } = await device(1);
  for (const url of ["http://x", "https://x/v1"]) new Sender(outbox, url);
  for (const url of ["file:///x", "ftp://x", "x", "", "xhttp://x", "httpss://x", "//x"]) {
    assert.throws(() => new Sender(outbox, url), (error) => error instanceof DeviceError && error.code === "E-DEVICE-COLLECTOR", url);
  }
});
