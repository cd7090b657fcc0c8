/*
 * The newest revisions of streams that this process knows: those of its own appends and of its
 * subscriptions. A node that was frozen or cut off believes for some seconds that it still leads,
 * and answers reads without what the others have appended meanwhile. A read that requires the
 * leader is no protection, but a read of a stream can be compared with what is known of it.
 */

/** More than the events of the seconds for which a node can be wrong. */
const STREAMS = 20_000;

export interface SeenRevisions {
  note(stream: string, revision: number): void;
  /** Returns the newest known revision of a stream; -1 if none is known. */
  newest(stream: string): number;
}

/** Remembers the streams that changed last. */
export function createSeenRevisions(): SeenRevisions {
  const streams = new Map<string, number>();
  return {
    note(stream, revision) {
      const before = streams.get(stream) ?? -1;
      // The last one to change is forgotten last.
      streams.delete(stream);
      streams.set(stream, Math.max(before, revision));
      if (streams.size > STREAMS) streams.delete(streams.keys().next().value as string);
    },
    newest: (stream) => streams.get(stream) ?? -1,
  };
}
