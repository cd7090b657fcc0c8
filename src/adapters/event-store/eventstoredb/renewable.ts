import { NotLeaderError } from '@eventstore/db-client';
import { EventStoreUnavailable } from '../port.ts';
import { isTransient } from './errors.ts';

export type Leader = NotLeaderError['leader'];

export interface Renewable<Client> {
  current(): Client;
  /** Reports an answer. The next time-out then renews the client at once. */
  answered(client: Client): void;
  /**
   * Replaces the client. Returns false if it is not current, if the error is not transient, or if a
   * time-out follows earlier ones too soon.
   */
  renew(failed: Client, error: unknown): boolean;
}

const FIRST_PAUSE_MS = 3_000;
const LONGEST_PAUSE_MS = 60_000;

/**
 * Holds a client and replaces it after transient failures. A new client discovers the cluster
 * again. It also drops a failed look-up of the server's features, which the old client would keep
 * forever. After NotLeader the new client dials the leader that the answer names.
 *
 * The pauses between renewals after time-outs in a row double, up to a minute. So a slow network
 * has longer than one try to connect. And a server that accepts connections and says nothing keeps a
 * socket of every client, which nothing can close.
 */
export function createRenewable<Client>(
  open: (leader: Leader | null) => Client,
  close: (client: Client) => void,
  now: () => number = () => performance.now(),
): Renewable<Client> {
  let client = open(null);
  let timeouts = 0;
  let renewedAt = Number.NEGATIVE_INFINITY;

  function tooSoon(): boolean {
    if (timeouts === 0) return false;
    return now() - renewedAt < Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (timeouts - 1));
  }

  return {
    current: () => client,
    answered(answering) {
      if (answering === client) timeouts = 0;
    },
    renew(failed, error) {
      if (failed !== client || !isTransient(error)) return false;
      const timedOut = error instanceof EventStoreUnavailable;
      if (timedOut && tooSoon()) return false;
      close(client);
      client = open(error instanceof NotLeaderError ? error.leader : null);
      timeouts = timedOut ? timeouts + 1 : 0;
      renewedAt = now();
      return true;
    },
  };
}
