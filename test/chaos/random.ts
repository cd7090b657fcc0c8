import { createHash } from 'node:crypto';

export interface Random {
  /** From 0 inclusive to 1 exclusive. */
  next(): number;
  /** A whole number between both ends, inclusive. */
  whole(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly [T, ...T[]] | readonly T[]): T;
  /** Milliseconds until the next random event at this average rate. */
  gapMs(perSecond: number): number;
  /** Returns a source that yields each item once, in random order, before it repeats one. */
  bag<T>(items: readonly T[]): () => T;
}

/**
 * Returns random numbers that follow from a seed. Each `purpose` has its own sequence, so a change
 * in one part of the run does not affect the others.
 */
export function randomFrom(seed: number, purpose: string): Random {
  let state = createHash('sha256').update(`${seed} ${purpose}`).digest().readUInt32LE();

  /** mulberry32 */
  function next(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  const whole = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));

  return {
    next,
    whole,
    chance: (probability) => next() < probability,
    pick<T>(items: readonly T[]): T {
      if (items.length === 0) throw new RangeError('nothing to pick from');
      return items[whole(0, items.length - 1)] as T;
    },
    gapMs: (perSecond) => (-Math.log(1 - next()) / perSecond) * 1_000,
    bag(items) {
      let left: typeof items extends readonly (infer T)[] ? T[] : never = [];
      return () => {
        if (left.length === 0) left = [...items];
        return left.splice(whole(0, left.length - 1), 1)[0] as (typeof items)[number];
      };
    },
  };
}
