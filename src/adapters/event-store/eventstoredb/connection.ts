import {
  type AppendExpectedRevision,
  type AppendResult,
  EventStoreDBClient,
  isCommandError,
  type JSONEventData,
} from '@eventstore/db-client';
import { within } from '../../../within.ts';
import { EventStoreUnavailable } from '../port.ts';
import { isTransient } from './errors.ts';

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

let shared: { url: string; users: number; connection: Omit<Connection, 'release'>; end(): Promise<unknown> } | null = null;

/** The connection of this process. Throws Error where one to another URL is still open. */
export function shareConnection(url: string): Connection {
  if (shared && shared.url !== url) {
    throw new Error('One process appends to one EventStoreDB only: close every store of the other one first');
  }
  shared ??= { url, users: 0, ...connect(url) };
  const mine = shared;
  mine.users += 1;
  return {
    ...mine.connection,
    async release() {
      mine.users -= 1;
      if (mine.users > 0) return;
      await mine.end();
      if (mine.users === 0 && shared === mine) shared = null;
    },
  };
}

function connect(url: string) {
  const open = () => EventStoreDBClient.connectionString(withKeepalive(url));
  const gate = createGate(APPENDS_IN_FLIGHT);
  const reader = open();
  let writer = open();
  let predecessorEnded = Promise.resolve();

  // Ending the old one's calls rejects every append that waits for a lost answer, and a new client
  // forgets a failed look-up of the server's features, which the old one would keep for ever. The
  // new one may only append once the old one's errors have emptied the table of pending appends.
  function renew(client: EventStoreDBClient): void {
    if (client !== writer) return;
    writer = open();
    predecessorEnded = client.dispose();
  }

  async function append(stream: string, records: JSONEventData[], expectedRevision: AppendExpectedRevision, timeoutMs: number) {
    await gate.enter();
    await predecessorEnded;
    const client = writer;
    try {
      return await within(
        timeoutMs,
        client.appendToStream(stream, records, { expectedRevision, deadline: timeoutMs }),
        EventStoreUnavailable,
      );
    } catch (error) {
      if (needsRenewal(error)) renew(client);
      throw error;
    } finally {
      gate.leave();
    }
  }

  return { connection: { reader, append }, end: () => Promise.all([reader.dispose(), writer.dispose()]) };
}

/** What the client does not mend by itself; plain errors come from its look-up of the server or of the server's features. */
function needsRenewal(error: unknown): boolean {
  return isTransient(error) && (!isCommandError(error as Error) || /RST_STREAM/.test((error as Error).message));
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
