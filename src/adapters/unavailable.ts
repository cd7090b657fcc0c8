import { EventStoreUnavailable } from './event-store/port.ts';
import { isPostgresUnavailable } from './postgres/unavailable.ts';

/**
 * How long a request, or a short command, waits for stores that do not answer. Clients and proxies
 * often wait for 30 s, and a slow network needs a part of them.
 */
export const GIVE_UP_ON_STORES_MS = 15_000;

/**
 * Passing errors: a deadlock, a serialization failure, a timed-out lock or statement, a disk error.
 * And a missing table: after an upgrade, a rebuild creates the table of a newer version when it is
 * done.
 */
const PASSING = /^(40|42P01|55P03|57014|58030)/;

/**
 * Returns whether Postgres or the event store was unreachable, or could not carry out the call just
 * now. The same call may succeed in a moment.
 */
export function isStoreUnavailable(error: unknown): boolean {
  return (
    error instanceof EventStoreUnavailable ||
    isPostgresUnavailable(error) ||
    PASSING.test(String((error as { code?: unknown } | null)?.code ?? ''))
  );
}
