/** What tests share: the repository's vectors and definitions, and scripted words. */

import { readFileSync, readdirSync } from "node:fs";
import type { Source, Words } from "../src/randomness.js";
import { FULL } from "../src/randomness.js";

const VECTORS = new URL("../../../../tests/vectors/", import.meta.url);

export function jsonOf(name: string): any {
  return JSON.parse(readFileSync(new URL(name, VECTORS), "utf-8"));
}

/** Names without their ending. */
export function namesIn(folder: string): string[] {
  const names = readdirSync(new URL(folder, VECTORS));
  return names.filter((name) => name.endsWith(".json")).map((name) => name.slice(0, -5)).sort();
}

/** Replays given words, and keeps permanent answers as the vectors' devices do. */
export class Script implements Source {
  #words: bigint[] = [];
  readonly memo = new Map<number, unknown>();

  give(words: string[]): void {
    this.#words = words.map(BigInt);
  }

  get left(): number {
    return this.#words.length;
  }

  word(limit: bigint = FULL): bigint {
    const word = this.#words.shift();
    if (word === undefined) throw new Error("the script has run out");
    if (word >= limit) throw new Error("a scripted word is not below its limit");
    return word;
  }

  /** Drawn each time, and kept where there is none yet. */
  permanent<Answer>(input: number, draw: (words: Words) => Answer): Answer {
    const drawn = draw(this);
    if (!this.memo.has(input)) this.memo.set(input, drawn);
    return this.memo.get(input) as Answer;
  }

  part(): Source {
    return this;
  }
}
