import type { EventStore } from '../../adapters/event-store/port.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import {
  type ChainState,
  type CheckedEvent,
  type CheckedStream,
  createChainVerifier,
} from './chain.ts';

/** What a later run needs to continue. */
export interface CheckedStreamsState extends ChainState {
  streams: number;
}

/** The streams of the log, as far as it was read. */
export interface CheckedStreams {
  /** Checks the next event of the log. Throws EventStoreUnavailable. */
  check(event: StoredEvent): Promise<CheckedEvent>;
  /** Returns how many streams have begun. */
  count(): number;
  /** As in `ChainVerifier`. */
  open(): ReadonlyMap<string, CheckedStream>;
  state(): CheckedStreamsState;
}

/** Checks each stream by itself and counts them. Asks the store for what memory does not hold. */
export function createCheckedStreams(
  store: EventStore,
  { streams, ...chain }: CheckedStreamsState,
): CheckedStreams {
  const verifier = createChainVerifier(chain);

  async function recallForgotten(event: StoredEvent): Promise<void> {
    if (!verifier.mayBeForgotten(event.stream)) return;
    const last = await lastBefore(store, event);
    if (last !== null) verifier.recall(last);
  }

  // The store is only asked about a faulty log: the first event of a stream has the revision 0.
  const isFirst = async (event: StoredEvent) =>
    event.revision === 0 || (await lastBefore(store, event)) === null;

  return {
    async check(event) {
      await recallForgotten(event);
      const checked = verifier.check(event);
      if (checked.opened && (await isFirst(event))) streams++;
      return checked;
    },
    count: () => streams,
    open: verifier.open,
    state: () => ({ streams, ...verifier.state() }),
  };
}

/** Returns the event of a stream that the log has last before this one; null if there is none. */
async function lastBefore(store: EventStore, event: StoredEvent): Promise<StoredEvent | null> {
  let last: StoredEvent | null = null;
  for (const other of await store.read(event.stream)) {
    if (other.isForeign || other.position >= event.position) continue;
    if (last === null || other.position > last.position) last = other;
  }
  return last;
}
