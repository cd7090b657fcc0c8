/** A record as the server stores it. One number is both commit and prepare position. */
export interface LogRecord {
  id: string;
  stream: string;
  revision: bigint;
  position: bigint;
  type: string;
  contentType: string;
  data: Uint8Array;
  metadata: Uint8Array;
}

export type Proposal = Pick<LogRecord, 'id' | 'type' | 'contentType' | 'data' | 'metadata'>;

export type Verdict =
  | { outcome: 'stored' | 'repeated'; revision: bigint; position: bigint }
  | { outcome: 'conflict'; actual: bigint | null }
  | { outcome: 'too_large' };

/** The limit of one append in total, in bytes, on servers before 25.1. */
export const MAX_APPEND_BYTES = 1024 * 1024;
const TOMBSTONE_REVISION = 2n ** 63n - 1n;

/** EventStoreDB's log with its rules for repeated appends, as measured on a 24.2 server. */
export function createFakeLog() {
  const records: LogRecord[] = [];
  const streams = new Map<string, LogRecord[]>();
  const watchers = new Set<() => void>();
  let end = 64n;

  function store(stream: string, revision: bigint, proposal: Proposal): LogRecord {
    const record = { ...proposal, stream, revision, position: end };
    end += BigInt(96 + proposal.data.length + proposal.metadata.length);
    records.push(record);
    streams.set(stream, [...(streams.get(stream) ?? []), record]);
    for (const watcher of watchers) watcher();
    return record;
  }

  /** `expected` is a revision, -1 for no stream, or null for any. */
  function append(stream: string, expected: bigint | null, proposals: Proposal[]): Verdict {
    const bytes = proposals.reduce(
      (sum, { data, metadata }) => sum + data.length + metadata.length,
      0,
    );
    if (bytes > MAX_APPEND_BYTES) return { outcome: 'too_large' };
    const stored = streams.get(stream) ?? [];
    const current = BigInt(stored.length) - 1n;
    if (expected === null || expected === current) {
      const last = proposals
        .map((proposal, i) => store(stream, current + 1n + BigInt(i), proposal))
        .at(-1);
      return {
        outcome: 'stored',
        revision: last?.revision ?? current,
        position: last?.position ?? end,
      };
    }
    // Only the ids count: the data is not compared, and a batch that extends beyond the end is a
    // conflict.
    const before = stored.slice(Number(expected) + 1, Number(expected) + 1 + proposals.length);
    const repeated = expected < current && proposals.every(({ id }, i) => before[i]?.id === id);
    const last = before.at(-1);
    if (!repeated || last === undefined)
      return { outcome: 'conflict', actual: current < 0n ? null : current };
    return { outcome: 'repeated', revision: last.revision, position: last.position };
  }

  return {
    records,
    append,
    /** Serves other records from now on: the files of the server were changed. */
    replace(others: LogRecord[]): void {
      records.splice(0, records.length, ...others);
      streams.clear();
      for (const record of others)
        streams.set(record.stream, [...(streams.get(record.stream) ?? []), record]);
    },
    /** The position of the next record. */
    end: () => end,
    stream: (name: string): LogRecord[] | undefined => streams.get(name),
    /** A hard delete leaves this record: it is not JSON, and has the highest possible revision. */
    tombstone(stream: string): void {
      const empty = new Uint8Array();
      const metadata = { contentType: 'application/octet-stream', data: empty, metadata: empty };
      store(stream, TOMBSTONE_REVISION, {
        id: crypto.randomUUID(),
        type: '$streamDeleted',
        ...metadata,
      });
    },
    /** Resolves at the next record, or when the signal aborts. */
    async changed(signal: AbortSignal): Promise<void> {
      if (signal.aborted) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      watchers.add(resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
      await promise;
      watchers.delete(resolve);
    },
  };
}

export type FakeLog = ReturnType<typeof createFakeLog>;
