/**
 * SHA-256 and HMAC-SHA256 (FIPS 180-4, FIPS 198-1), synchronous.
 *
 * WebCrypto answers later, and an IndexedDB transaction ends when a program waits for something else: a state
 * could then not be read, changed and kept in one transaction.
 */

/** The first 32 bits of the fractional parts of the cube (K) and square (H) roots of the first primes. */
const [K, H] = constants();

function constants(): [Uint32Array, Uint32Array] {
  const k = new Uint32Array(64);
  const h = new Uint32Array(8);
  let found = 0;
  for (let candidate = 2; found < 64; candidate++) {
    let prime = true;
    for (let d = 2; d * d <= candidate; d++) prime &&= candidate % d !== 0;
    if (!prime) continue;
    if (found < 8) h[found] = Number(root(candidate, 2n) & 0xffffffffn);
    k[found++] = Number(root(candidate, 3n) & 0xffffffffn);
  }
  return [k, h];
}

/** floor(number^(1/degree) * 2^32), by bisection in integers: no function of the platform is trusted. */
function root(number: number, degree: bigint): bigint {
  const target = BigInt(number) << (32n * degree);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    // No `**`: builds for old syntax make Math.pow of it, which takes no bigint.
    if (middle * middle * (degree === 2n ? 1n : middle) <= target) low = middle;
    else high = middle;
  }
  return low;
}

const schedule = new Uint32Array(64);

/** One step of the hash: `state` takes in the 64 bytes of `block` from `at` on. */
function compress(state: Uint32Array, block: Uint8Array, at: number): void {
  const w = schedule;
  for (let i = 0; i < 16; i++, at += 4) {
    w[i] = (block[at] << 24) | (block[at + 1] << 16) | (block[at + 2] << 8) | block[at + 3];
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
  }
  // One by one: taking the array apart would cost a quarter of all the time.
  let a = state[0];
  let b = state[1];
  let c = state[2];
  let d = state[3];
  let e = state[4];
  let f = state[5];
  let g = state[6];
  let h = state[7];
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

/** The hash of `message` after a state that has taken in `before` bytes, a multiple of 64. */
function finish(state: Uint32Array, before: number, message: Uint8Array): Uint8Array {
  const whole = message.length - (message.length % 64);
  for (let at = 0; at < whole; at += 64) compress(state, message, at);
  const rest = message.length - whole;
  const tail = new Uint8Array(rest < 56 ? 64 : 128);
  tail.set(message.subarray(whole));
  tail[rest] = 0x80;
  const view = new DataView(tail.buffer);
  view.setBigUint64(tail.length - 8, BigInt(before + message.length) * 8n);
  for (let at = 0; at < tail.length; at += 64) compress(state, tail, at);
  const digest = new Uint8Array(32);
  const out = new DataView(digest.buffer);
  state.forEach((word, i) => out.setUint32(4 * i, word));
  return digest;
}

/** SHA-256 of a message, 32 bytes. */
export function sha256(message: Uint8Array): Uint8Array {
  return finish(H.slice(), 0, message);
}

/** HMAC-SHA256 under one key, for many messages. */
export class Hmac {
  readonly #inner: Uint32Array;
  readonly #outer: Uint32Array;

  constructor(key: Uint8Array) {
    const short = key.length > 64 ? sha256(key) : key;
    const padded = (with_: number): Uint32Array => {
      const block = new Uint8Array(64).fill(with_);
      short.forEach((byte, i) => (block[i] ^= byte));
      const state = H.slice();
      compress(state, block, 0);
      return state;
    };
    this.#inner = padded(0x36);
    this.#outer = padded(0x5c);
  }

  /** The tag of a message, 32 bytes. */
  tag(message: Uint8Array): Uint8Array {
    return finish(this.#outer.slice(), 64, finish(this.#inner.slice(), 64, message));
  }
}
