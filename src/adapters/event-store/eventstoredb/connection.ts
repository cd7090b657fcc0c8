import type { EventStoreDBClient } from '@eventstore/db-client';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { withTimeout } from '../../../concurrency/with-timeout.ts';
import { EventStoreUnavailable } from '../port.ts';
import type { Append, Appended } from './append-messages.ts';
import { createAppendStream } from './append-stream.ts';
import type { CallLimits } from './calls.ts';
import { clientUrl, type EventStoreDbSignIn, urlOfNode } from './client-url.ts';
import { closeConnection, endClient, openClient } from './library.ts';
import { createRenewable, type Leader } from './renewable.ts';
import { checkServerVersion } from './server-version.ts';

/** Concurrency limit for appends. */
const APPENDS_IN_FLIGHT = 64;

/**
 * The two clients of this process: one for appends, and one for reads and subscriptions, so that
 * their errors do not end appends.
 */
export interface Connection {
  /**
   * Runs a call on the client for reads. Renews that client after a transient failure, so that the
   * next call finds the leader. Rejects with the error of `work` or of the version check.
   */
  read<T>(limits: CallLimits, work: (client: EventStoreDBClient) => Promise<T>): Promise<T>;
  /** Tries once. Rejects with the client's error, or EventStoreUnavailable if its time is over. */
  append(append: Append, limits: CallLimits): Promise<Appended>;
  /** Reports a failed subscription of the client for reads. Renews it if the error is transient. */
  subscriptionFailed(client: EventStoreDBClient, error: unknown): void;
  /** Releases this user's share. The last release ends all calls. */
  release(): Promise<void>;
}

let shared: {
  url: string;
  users: number;
  connection: Omit<Connection, 'release'>;
  end(): Promise<unknown>;
} | null = null;

/**
 * Returns the connection of this process. Throws Error if one to another URL is still open, and
 * EventStoreUnusable if the URL can't be used.
 */
export function shareConnection(location: EventStoreDbSignIn): Connection {
  const url = clientUrl(location);
  if (shared && shared.url !== url) {
    throw new Error(
      'One process appends to one EventStoreDB only: close every store of the other one first',
    );
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

/** A URL of one node would lead back to a follower, so the leader is dialled if it is known. */
function open(url: string, leader: Leader | null): EventStoreDBClient {
  return openClient(leader ? urlOfNode(url, leader) : url);
}

function connect(url: string) {
  const permits = createSemaphore(APPENDS_IN_FLIGHT);
  const reader = createRenewable((leader) => open(url, leader), closeConnection);
  // The end of a client rejects every append that waits for a lost answer, and drops what it has
  // not sent yet. So an append whose answer is lost renews the writer at once.
  const writer = createRenewable(
    (leader) => createAppendStream(open(url, leader)),
    (stream) => void stream.end(),
  );

  async function read<T>(
    { signal, attemptMs }: CallLimits,
    work: (client: EventStoreDBClient) => Promise<T>,
  ): Promise<T> {
    const client = reader.current();
    const ms = attemptMs();
    let waiting = true;
    const answer = checkServerVersion(client).then(() => {
      if (!waiting) throw new EventStoreUnavailable('the call was aborted');
      return work(client);
    });
    try {
      const result = await withTimeout(ms, answer, EventStoreUnavailable, signal);
      reader.answered(client);
      return result;
    } catch (error) {
      waiting = false;
      reader.renew(client, error);
      throw error;
    }
  }

  async function append(request: Append, limits: CallLimits): Promise<Appended> {
    const release = await permits.acquire(limits.signal);
    const using = writer.current();
    try {
      const appended = await using.append(request, limits);
      writer.answered(using);
      return appended;
    } catch (error) {
      writer.renew(using, error);
      throw error;
    } finally {
      release();
    }
  }

  return {
    connection: { read, append, subscriptionFailed: reader.renew },
    end: () => Promise.all([endClient(reader.current()), writer.current().end()]),
  };
}
