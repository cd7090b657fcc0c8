/*
 * Names what differs between a signed tree and the current log.
 *
 * Both are long lists of hashes that differ in a few places. The comparison reads them side by
 * side. At a difference, it reads on until both have a hash in common again, and compares the
 * entries before it by stream and revision. So its memory depends on the longest stretch that
 * differs, not on the log.
 */
import type { Hash } from '../../domain/proof/hash.ts';
import type { EventName, StoredLeaf } from '../../projections/proof/leaves.ts';

/** An event of the current log. */
export interface LoggedLeaf {
  hash: Hash;
  name: EventName;
  position: bigint;
}

export type TreeDifference =
  | { kind: 'changed'; index: number; was: EventName; now: LoggedLeaf }
  | { kind: 'removed'; index: number; was: EventName | null; atEnd: boolean }
  | { kind: 'moved'; index: number; now: LoggedLeaf }
  | { kind: 'inserted'; now: LoggedLeaf };

export interface Differences {
  found: TreeDifference[];
  /** How many further ones are not in `found`. */
  more: number;
}

/** Entries of both lists that are first searched for a common hash. */
const WINDOW = 64;
/** How far the log is searched for what follows the last signed leaf. A live log has no end. */
const SEARCHED_AT_END = 100_000;
/** Differences that are named. Memory would have no bound without a limit. */
const NAMED = 10_000;

/**
 * Compares the leaves of a signed tree with the log from the same place on. What follows the last
 * signed leaf in the log is no difference.
 */
export async function compareTrees(
  signed: AsyncIterable<StoredLeaf>,
  logged: AsyncIterable<LoggedLeaf>,
): Promise<Differences> {
  const [before, now] = [window(signed), window(logged)];
  const changed = capped<Extract<TreeDifference, { kind: 'changed' }>>();
  const removed = capped<StoredLeaf>();
  const inserted = capped<LoggedLeaf>();
  let lastPaired = -1;
  let later: LoggedLeaf[] = [];
  try {
    while (await before.fill(1)) {
      const was = before.first() as StoredLeaf;
      const is = (await now.fill(1)) ? (now.first() as LoggedLeaf) : null;
      if (is && keyOf(was.hash) === keyOf(is.hash)) {
        lastPaired = was.index;
        before.take(1);
        now.take(1);
        continue;
      }
      const common = await nextCommon(before, now);
      const stretch = pair(before.take(common.before), now.take(common.now), common.isEnd);
      lastPaired = stretch.changed.at(-1)?.index ?? lastPaired;
      changed.add(stretch.changed);
      removed.add(stretch.removed);
      inserted.add(stretch.inserted);
      later = stretch.later;
    }
    const gone = new Set(removed.items.map(({ hash }) => keyOf(hash)));
    for (let i = 0; gone.size > 0 && i < SEARCHED_AT_END && (await now.fill(1)); i++)
      later.push(...now.take(1));
    inserted.add(later.filter(({ hash }) => gone.has(keyOf(hash))));
  } finally {
    await Promise.all([before.close(), now.close()]);
  }
  return {
    found: [...changed.items, ...movedOrNot(removed.items, inserted.items, lastPaired)],
    more: changed.more() + removed.more() + inserted.more(),
  };
}

/** Returns how many entries of both lists precede the next hash that both have. */
async function nextCommon(
  before: Window<StoredLeaf>,
  now: Window<LoggedLeaf>,
): Promise<{ before: number; now: number; isEnd: boolean }> {
  for (let size = WINDOW; ; size *= 2) {
    const moreBefore = await before.fill(size);
    const moreNow = await now.fill(size);
    const [signed, logged] = [before.peek(size), now.peek(size)];
    const places = new Map(signed.map(({ hash }, i) => [keyOf(hash), i]));
    let nearest: { before: number; now: number } | null = null;
    for (const [j, { hash }] of logged.entries()) {
      const i = places.get(keyOf(hash));
      if (i !== undefined && (nearest === null || i + j < nearest.before + nearest.now))
        nearest = { before: i, now: j };
    }
    if (nearest !== null) return { ...nearest, isEnd: false };
    const isEnd = !moreBefore;
    if (logged.length === 0 || (isEnd && (!moreNow || size > SEARCHED_AT_END)))
      return { before: signed.length, now: logged.length, isEnd };
  }
}

interface Stretch {
  changed: Extract<TreeDifference, { kind: 'changed' }>[];
  removed: StoredLeaf[];
  inserted: LoggedLeaf[];
  /** What follows the last signed leaf. */
  later: LoggedLeaf[];
}

/** Compares a stretch by stream and revision. At the end, the log has events that came later. */
function pair(before: StoredLeaf[], now: LoggedLeaf[], isEnd: boolean): Stretch {
  const places = new Map(now.map(({ name }, j) => [placeOf(name), j]));
  const paired = new Set<number>();
  let last = -1;
  const stretch: Stretch = { changed: [], removed: [], inserted: [], later: [] };
  for (const leaf of before) {
    const j = leaf.name === null ? undefined : places.get(placeOf(leaf.name));
    if (leaf.name === null || j === undefined) stretch.removed.push(leaf);
    else {
      paired.add(j);
      last = Math.max(last, j);
      const changedTo = now[j] as LoggedLeaf;
      stretch.changed.push({ kind: 'changed', index: leaf.index, was: leaf.name, now: changedTo });
    }
  }
  const end = isEnd ? last : now.length;
  stretch.inserted = now.filter((_, j) => j < end && !paired.has(j));
  stretch.later = now.slice(end + 1);
  return stretch;
}

/** A leaf that is missing in one place and too many in another has moved. */
function movedOrNot(
  removed: StoredLeaf[],
  inserted: LoggedLeaf[],
  lastPaired: number,
): TreeDifference[] {
  const elsewhere = new Map(inserted.map((leaf) => [keyOf(leaf.hash), leaf]));
  const found: TreeDifference[] = [];
  for (const { index, hash, name } of removed) {
    const now = elsewhere.get(keyOf(hash));
    elsewhere.delete(keyOf(hash));
    if (now) found.push({ kind: 'moved', index, now });
    else found.push({ kind: 'removed', index, was: name, atEnd: index > lastPaired });
  }
  return [...found, ...[...elsewhere.values()].map((now) => ({ kind: 'inserted' as const, now }))];
}

function keyOf(hash: Hash): string {
  return Buffer.from(hash.buffer, hash.byteOffset, hash.length).toString('latin1');
}

function placeOf({ stream, revision }: EventName): string {
  return `${stream} ${revision}`;
}

function capped<T>() {
  const items: T[] = [];
  let more = 0;
  return {
    items,
    more: () => more,
    add(added: T[]) {
      const kept = added.slice(0, NAMED - items.length);
      items.push(...kept);
      more += added.length - kept.length;
    },
  };
}

/** The next entries of a list. */
interface Window<T> {
  /** Reads until it holds so many. Returns false if so many are not left. */
  fill(size: number): Promise<boolean>;
  first(): T | undefined;
  peek(count: number): T[];
  /** Removes and returns the first ones. */
  take(count: number): T[];
  close(): Promise<void>;
}

function window<T>(source: AsyncIterable<T>): Window<T> {
  const iterator = source[Symbol.asyncIterator]();
  let items: T[] = [];
  let start = 0;
  return {
    async fill(size) {
      while (items.length - start < size) {
        const { value, done } = await iterator.next();
        if (done) return false;
        items.push(value);
      }
      return true;
    },
    first: () => items[start],
    peek: (count) => items.slice(start, start + count),
    take(count) {
      const taken = items.slice(start, start + count);
      start += taken.length;
      if (start * 2 >= items.length) {
        items = items.slice(start);
        start = 0;
      }
      return taken;
    },
    async close() {
      await iterator.return?.();
    },
  };
}
