/*
 * The newest revisions of streams that this process knows: those of its own appends and of its
 * subscriptions. A node that was frozen or cut off believes for some seconds that it still leads,
 * and answers reads without what the others have appended meanwhile. A read that requires the
 * leader is no protection, but a read of a stream can be compared with what is known of it.
 */

/** Much longer than a node can be wrong: so a log that was changed is seen as it is. */
const KNOWN_FOR_MS = 60_000;
const STREAMS = 20_000;

export interface SeenRevisions {
  note(stream: string, revision: number): void;
  /** Returns the newest revision of a stream that was noted within a minute; -1 if none was. */
  newest(stream: string): number;
  /** Forgets all streams, because another log took the place of the one that they belong to. */
  forget(): void;
}

/** Remembers the streams that changed last, at most 20,000. */
export function createSeenRevisions(): SeenRevisions {
  const streams = new Map<string, { revision: number; at: number }>();
  return {
    note(stream, revision) {
      const known = streams.get(stream);
      if (known && known.revision >= revision) return;
      // The last one to change is forgotten last.
      streams.delete(stream);
      streams.set(stream, { revision, at: performance.now() });
      if (streams.size > STREAMS) streams.delete(streams.keys().next().value as string);
    },
    newest(stream) {
      const known = streams.get(stream);
      return known && performance.now() < known.at + KNOWN_FOR_MS ? known.revision : -1;
    },
    forget: () => streams.clear(),
  };
}
