import {
  type AppendExpectedRevision,
  type AppendResult,
  EventStoreDBClient,
  type JSONEventData,
} from '@eventstore/db-client';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { withTimeout } from '../../../concurrency/with-timeout.ts';
import { EventStoreUnavailable } from '../port.ts';
import { clientUrl, type EventStoreDbSignIn, urlOfNode } from './client-url.ts';
import { ignoreUnknownAnswers } from './late-answers.ts';
import { createRenewable, type Leader } from './renewable.ts';
import { checkServerVersion } from './server-version.ts';

/**
 * Concurrency limit for appends. Above its stream's high-water mark of 16, the client queues
 * appends. If the stream then fails, it rejects that queue where no code can catch it, which ends
 * the process. Below the mark it queues nothing.
 */
const APPENDS_IN_FLIGHT = 15;
const LONGEST_READER_PAUSE_MS = 60_000;

/** The time that a call has left. */
export interface CallLimits {
  /** Aborts when the caller has its answer. A call must send nothing after that. */
  signal: AbortSignal;
  /**
   * Returns the milliseconds for a try that starts now. Throws EventStoreUnavailable if none are
   * left.
   */
  attemptMs(): number;
}

/**
 * The two clients of this process. The library keeps one process-wide table of pending appends. An
 * error on the append stream of any client rejects them all, so only one client ever appends. Reads
 * and subscriptions use another client, so that their errors do not end appends.
 */
export interface Connection {
  /**
   * Runs a call on the client for reads. Renews that client after a transient failure, so that the
   * next call finds the leader. Rejects with the error of `work` or of the version check.
   */
  read<T>(limits: CallLimits, work: (client: EventStoreDBClient) => Promise<T>): Promise<T>;
  /** Tries once. Rejects with the client's error, or EventStoreUnavailable if its time is over. */
  append(
    stream: string,
    records: JSONEventData[],
    expectedRevision: AppendExpectedRevision,
    limits: CallLimits,
  ): Promise<AppendResult>;
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
  return EventStoreDBClient.connectionString(leader ? urlOfNode(url, leader) : url);
}

function connect(url: string) {
  const permits = createSemaphore(APPENDS_IN_FLIGHT);
  const reader = createRenewable((leader) => open(url, leader), LONGEST_READER_PAUSE_MS);
  // Every failed append renews the writer: its end drops the appends that it has not sent yet.
  const writer = createRenewable((leader) => ignoreUnknownAnswers(open(url, leader)), 0);
  let predecessorsEnding: Promise<unknown> | null = null;

  /**
   * Replaces the client for appends. Ending the old client rejects every append that waits for a
   * lost answer, drops what it has not sent yet, and closes the stream for late answers. The new
   * client may append only after the errors of the old one have emptied the table of pending
   * appends.
   */
  function renewWriter(failed: EventStoreDBClient, error: unknown): void {
    if (!writer.renew(failed, error)) return;
    const ending = Promise.all([predecessorsEnding, failed.dispose()]).then(() => {
      if (predecessorsEnding === ending) predecessorsEnding = null;
    });
    predecessorsEnding = ending;
  }

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

  async function append(
    stream: string,
    records: JSONEventData[],
    expectedRevision: AppendExpectedRevision,
    { signal, attemptMs }: CallLimits,
  ) {
    const release = await permits.acquire(signal);
    try {
      if (predecessorsEnding)
        await withTimeout(attemptMs(), predecessorsEnding, EventStoreUnavailable);
      const client = writer.current();
      try {
        // Before its first append, the client looks up the server. It would hold back an append
        // until then and could send it long after the caller has given up.
        await withTimeout(attemptMs(), checkServerVersion(client), EventStoreUnavailable);
        signal.throwIfAborted();
        if (client !== writer.current()) throw new EventStoreUnavailable('the client was renewed');
        // The server rejects an append that arrives after the deadline.
        const deadline = attemptMs();
        const options = { expectedRevision, deadline, requiresLeader: true };
        return await withTimeout(
          deadline,
          client.appendToStream(stream, records, options),
          EventStoreUnavailable,
        );
      } catch (error) {
        renewWriter(client, error);
        throw error;
      }
    } finally {
      release();
    }
  }

  return {
    connection: { read, append, subscriptionFailed: reader.renew },
    end: () => Promise.all([reader.current().dispose(), writer.current().dispose()]),
  };
}
