/*
 * What a process remembers of the clients that create transfers. Most creations of a busy client
 * then need no query before their append.
 *
 * - The key, the scopes and the endpoints are those of a version of the catalog. With the log in
 *   Postgres, the append of the creation has that version as its condition, so a success never
 *   rests on older ones. An EventStoreDB takes no condition: there, a change is answered only when
 *   no process remembers what was before it (`untilInEffect`). Any error is decided again on what
 *   Postgres has: `readmit`.
 * - The requests are counted here until a request of the key asks Postgres, and for `FLUSH_MS` at
 *   most. Until then, a process admits an eighth of the requests that were left: eight processes do
 *   not exceed the limit together. A process that ends drops the last few counts.
 * - The queue is at most `REMEMBERED_MS` old, and grows by the transfers that were admitted since.
 *   The limit of open transfers is shared as the requests are.
 */
import type { Condition } from '../../adapters/event-store/port.ts';
import { REMEMBERED_MS } from '../../commands/catalog.ts';
import type { QueueView } from '../../processes/dispatch/queue-estimate.ts';
import { versionOfCatalog } from '../../projections/catalog/queries.ts';
import type { Client } from '../auth/client.ts';
import type { RateWindow } from './rate-limit.ts';

const FLUSH_MS = 250;
/** A process uses one part of what all processes may use together. */
const PARTS = 8;
/** The oldest is forgotten first. */
const CLIENTS = 1_000;

/** A client as Postgres had it. */
export interface Seen {
  client: Client;
  /** The subject of its rate window. */
  subject: string;
  window: RateWindow;
  /** Seconds until the window ends or the key expires. */
  secondsLeft: number;
  queue: QueueView;
  /** What `begin` returned before Postgres was asked. */
  begun: Begun;
}

/** When Postgres was asked. */
export interface Begun {
  /** On the clock of `performance`. */
  at: number;
  /** Requests of all clients that came before. */
  requests: number;
}

export type Known = Pick<Remembered, 'client' | 'subject' | 'window' | 'queue' | 'condition'>;

interface Remembered extends Seen {
  /** The catalog is still the same. Null if the log takes no conditions. */
  condition: Condition | null;
  /** On the clock of `performance`. */
  until: number;
  /** Requests that were admitted by it. */
  admitted: number;
  /** Requests that `window` does not count, without those. */
  uncounted: number;
}

export interface RememberedClients {
  /** Admits and counts a request of a key. Returns null if Postgres must decide. */
  admit(sha256: string): Known | null;
  /** Call it before Postgres is asked. */
  begin(): Begun;
  remember(sha256: string, seen: Seen): void;
  forget(sha256: string): void;
  /** Returns how many requests of a key Postgres has not counted, and forgets them. */
  takeUncounted(sha256: string): number;
}

/**
 * `count` counts requests of a key, before Postgres is asked again. `takesConditions` says whether
 * the log does.
 */
export function createRememberedClients(
  takesConditions: boolean,
  count: (sha256: string, subject: string, requests: number) => void,
): RememberedClients {
  const clients = new Map<string, Remembered>();
  /** Requests of all clients. */
  let requests = 0;
  const uncounted = new Map<string, { subject: string; requests: number }>();
  let flushIsDue = false;

  function flush(): void {
    flushIsDue = false;
    for (const [sha256, left] of uncounted) count(sha256, left.subject, left.requests);
    uncounted.clear();
  }

  return {
    admit(sha256) {
      const known = clients.get(sha256);
      if (known === undefined) return null;
      const { client, subject, window, queue, condition, until } = known;
      if (performance.now() > until || known.admitted + 1 > window.remaining / PARTS) {
        clients.delete(sha256);
        return null;
      }
      if (!flushIsDue) setTimeout(flush, FLUSH_MS).unref();
      flushIsDue = true;
      uncounted.set(sha256, { subject, requests: (uncounted.get(sha256)?.requests ?? 0) + 1 });
      known.admitted++;
      const since = requests++ - known.begun.requests;
      return {
        client,
        subject,
        condition,
        window: { ...window, remaining: window.remaining - known.uncounted - known.admitted },
        queue: {
          version: queue.version,
          estimate(accountId, priority) {
            const estimate = queue.estimate(accountId, priority, since);
            const elsewhere = (PARTS - 1) * since;
            return { ...estimate, openTransfers: estimate.openTransfers + elsewhere };
          },
        },
      };
    },
    begin: () => ({ at: performance.now(), requests: requests++ }),
    remember(sha256, seen) {
      const until = seen.begun.at + Math.min(REMEMBERED_MS, seen.secondsLeft * 1_000);
      const before = clients.get(sha256);
      // Requests that shared a statement saw the same queue: none of them is in it.
      const begun = before?.queue === seen.queue ? before.begun : seen.begun;
      const [oldest] = clients.keys();
      if (clients.size >= CLIENTS && oldest !== undefined) clients.delete(oldest);
      const condition = takesConditions
        ? { value: seen.queue.version, read: versionOfCatalog }
        : null;
      clients.set(sha256, {
        ...seen,
        condition,
        begun,
        until,
        admitted: 0,
        uncounted: uncounted.get(sha256)?.requests ?? 0,
      });
    },
    forget: (sha256) => void clients.delete(sha256),
    takeUncounted(sha256) {
      const taken = uncounted.get(sha256)?.requests ?? 0;
      uncounted.delete(sha256);
      return taken;
    },
  };
}
