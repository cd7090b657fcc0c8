import { type AppendExpectedRevision, type AppendResult, EventStoreDBClient, type JSONEventData } from '@eventstore/db-client';
import { EventStoreUnavailable } from '../port.ts';
import { isTransient, within } from './errors.ts';

/**
 * Appends in flight at once. The client queues what its stream won't take (more than its high-water
 * mark of 16), and when the stream then dies it rejects that queue where nobody can catch it, which
 * ends the process. Below the mark nothing is queued.
 */
const APPENDS_IN_FLIGHT = 15;

/** A dead peer is noticed after at most their sum. A shorter interval makes the client warn on the console. */
const KEEPALIVE = { keepAliveInterval: 10_000, keepAliveTimeout: 2_000 };

/**
 * The two clients of this process. The library keeps one process-wide table of pending appends, and
 * an error on any client's append stream rejects them all, so only `writer` ever appends; reads and
 * subscriptions have `reader`, so that their errors do not cut appends off.
 */
export interface Connection {
  readonly reader: EventStoreDBClient;
  /** One try. Rejects with what the client gives, or EventStoreUnavailable after `timeoutMs`. */
  append(stream: string, records: JSONEventData[], expectedRevision: AppendExpectedRevision, timeoutMs: number): Promise<AppendResult>;
  /** Gives up this user's share; the last one ends all calls. */
  release(): Promise<void>;
}

let current: { url: string; users: number; connection: Connection } | null = null;

/** The connection of this process. Throws Error where one to another URL is still open. */
export function shareConnection(url: string): Connection {
  if (current && current.url !== url) {
    throw new Error('One process appends to one EventStoreDB only: close every store of the other one first');
  }
  current ??= { url, users: 0, connection: connect(url) };
  current.users += 1;
  return current.connection;
}

function connect(url: string): Connection {
  const address = withKeepalive(url);
  const reader = EventStoreDBClient.connectionString(address);
  let writer = Promise.resolve(EventStoreDBClient.connectionString(address));
  let stuck: EventStoreDBClient | null = null;
  const gate = createGate(APPENDS_IN_FLIGHT);

  // Ending the old one's calls rejects every append that waits for a lost answer, and a new client
  // forgets a failed look-up of the server's features, which the old one would keep for ever. The
  // new one may only append once the old one's errors have emptied the table of pending appends.
  function renew(client: EventStoreDBClient): void {
    if (client === stuck) return;
    stuck = client;
    writer = client.dispose().then(() => EventStoreDBClient.connectionString(address));
  }

  async function append(stream: string, records: JSONEventData[], expectedRevision: AppendExpectedRevision, timeoutMs: number) {
    await gate.enter();
    try {
      const client = await writer;
      const options = { expectedRevision, deadline: timeoutMs };
      return await within(timeoutMs, client.appendToStream(stream, records, options)).catch((error: unknown) => {
        if (needsRenewal(error)) renew(client);
        throw error;
      });
    } finally {
      gate.leave();
    }
  }

  async function release(): Promise<void> {
    if (!current) return;
    current.users -= 1;
    if (current.users > 0) return;
    await Promise.all([reader.dispose(), writer.then((client) => client.dispose())]);
    if (current?.users === 0) current = null;
  }

  return { reader, append, release };
}

function needsRenewal(error: unknown): boolean {
  return error instanceof EventStoreUnavailable || (isTransient(error) && /RST_STREAM/.test((error as Error).message));
}

function withKeepalive(url: string): string {
  const missing = Object.entries(KEEPALIVE).filter(([key]) => !url.toLowerCase().includes(`${key.toLowerCase()}=`));
  const query = missing.map(([key, value]) => `${key}=${value}`).join('&');
  if (query === '') return url;
  return `${url}${url.includes('?') ? '&' : '?'}${query}`;
}

function createGate(places: number) {
  const waiting: (() => void)[] = [];
  let free = places;
  return {
    async enter(): Promise<void> {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
    },
    leave(): void {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    },
  };
}
