/*
 * The leaves of events that left the log by retention. The tree keeps them, so each reader that
 * folds the log from its start adds them at their places.
 *
 * The stream `log-retention` has them in pages. A page is sorted by the place in the tree. Only the
 * first and last place of each page stay in memory, and the pages that are needed right now.
 *
 * A transfer leaves the log after its record. So a reader looks for records after it has read a
 * batch. Every event that the batch lacks is then named here.
 */
import { pagesOf } from '../../adapters/event-store/pages.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import { RETENTION } from '../../domain/events/streams.ts';
import type { Hash } from '../../domain/proof/hash.ts';
import {
  isRetentionRecorded,
  type RemovedLeaf,
  removedLeavesOf,
  retentionRecords,
} from '../../domain/retention.ts';
import { revisionAfter } from '../read-log.ts';

/** Records that are in memory at once. Each names hundreds of leaves. */
const READ_AT_ONCE = 20;

/** A leaf of the tree: of an event in the log, of one that left it, or of one that is to leave. */
export type Woven<L> =
  | { leaf: L; removed: null }
  | { leaf: L; removed: RemovedLeaf }
  | { leaf: null; removed: RemovedLeaf };

export interface RemovedLeaves {
  /**
   * Puts the leaves of removed events between the next leaves of the log, which follow `size`
   * leaves of the tree. Throws EventStoreUnavailable.
   */
  weave<L>(size: number, leaves: L[], hashOf: (leaf: L) => Hash): Promise<Woven<L>[]>;
  /** Returns true if the next events may have removed leaves before them. */
  hasMore(): Promise<boolean>;
  /** Returns how many leaves the records name from an index on. */
  countFrom(index: number): Promise<number>;
  /** Returns true if a stream left the log. An EventStoreDB may still yield some of its events. */
  isGone(stream: string): Promise<boolean>;
}

interface Page {
  revision: number;
  first: number;
  last: number;
}

/**
 * `from`: the log is read after this position. Earlier records name only earlier leaves.
 *
 * `looksOnce` is for a live consumer. A removal waits until the consumer has passed its record. So
 * whatever the consumer misses left the log before its first batch was read.
 */
export function createRemovedLeaves(
  store: EventStore,
  from: bigint | null,
  { looksOnce = false }: { looksOnce?: boolean } = {},
): RemovedLeaves {
  /** Those to come, the last one first. */
  let pages: Page[] = [];
  /** Of the pages that were read, in the order of the tree. */
  let leaves: RemovedLeaf[] = [];
  let nextRecord: number | null = null;
  let looked = false;

  async function findPages(): Promise<void> {
    if (looked && looksOnce) return;
    const found: Page[] = [];
    nextRecord ??= await revisionAfter(store, RETENTION, from);
    for await (const events of pagesOf(store, RETENTION, nextRecord, READ_AT_ONCE)) {
      nextRecord += events.length;
      for (const { revision, data } of retentionRecords(events)) {
        const of = removedLeavesOf(data);
        const [first, last] = [of[0], of.at(-1)];
        if (first && last) found.push({ revision, first: first.index, last: last.index });
      }
    }
    looked = true;
    if (found.length > 0) pages = [...pages, ...found].sort((a, b) => b.first - a.first);
  }

  /** Returns the first removed leaf from an index on; null if there is none. */
  async function next(index: number): Promise<RemovedLeaf | null> {
    for (;;) {
      const place = leaves.findIndex((leaf) => leaf.index >= index);
      leaves = place < 0 ? [] : leaves.slice(place);
      const [leaf] = leaves;
      const page = pages.at(-1);
      if (!page || (leaf && leaf.index < page.first)) return leaf ?? null;
      pages.pop();
      if (page.last < index) continue;
      const [event] = await store.read(RETENTION, page.revision, 1);
      if (event && isRetentionRecorded(event))
        leaves = [...leaves, ...removedLeavesOf(event.data)].sort((a, b) => a.index - b.index);
    }
  }

  return {
    async weave(size, logged, hashOf) {
      await findPages();
      const woven: Woven<(typeof logged)[number]>[] = [];
      let removed = await next(size);
      for (const leaf of logged) {
        let named: RemovedLeaf | null = null;
        while (named === null && removed?.index === size + woven.length) {
          if (Buffer.compare(removed.hash, hashOf(leaf)) === 0) named = removed;
          else woven.push({ leaf: null, removed });
          removed = await next(removed.index + 1);
        }
        woven.push(named === null ? { leaf, removed: named } : { leaf, removed: named });
      }
      return woven;
    },

    async hasMore() {
      if (!looked) await findPages();
      return pages.length > 0 || leaves.length > 0;
    },

    async countFrom(index) {
      await findPages();
      let count = leaves.filter((leaf) => leaf.index >= index).length;
      for (const { revision } of pages)
        for (const { data } of retentionRecords(await store.read(RETENTION, revision, 1)))
          count += removedLeavesOf(data).filter((leaf) => leaf.index >= index).length;
      return count;
    },

    isGone: async (stream) => (await store.read(stream, 0, 1)).length === 0,
  };
}
