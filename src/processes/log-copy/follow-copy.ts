import { setTimeout as sleep } from 'node:timers/promises';
import { followEngine } from '../../adapters/event-store/engine-of-log.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Transaction } from '../../adapters/postgres/connect.ts';
import type { Held } from '../../adapters/postgres/locks.ts';
import { DomainError } from '../../domain/errors.ts';
import { type ConsumerDeps, lockOf } from '../../projections/consumer.ts';
import { forgetReadModels } from '../../projections/read-models.ts';
import { readToEnd } from '../../projections/read-to-end.ts';
import { catchUpIfIdle } from '../../projections/run-consumer.ts';
import { allConsumers } from '../consumers.ts';
import { rebuildDispatch } from '../dispatch/consumer.ts';
import { createOutboxConsumer, rebuildOutbox } from '../webhooks/outbox.ts';
import { RUNNING_SERVICES } from './running-services.ts';

/**
 * How long after the loss of its lock an append of a process may arrive in an EventStoreDB. It is
 * sure of the lock for up to 15 s (`locks.ts`), and tries an append for 10 s
 * (`eventstoredb/log.ts`).
 */
const LATE_APPENDS_MS = 30_000;

export interface CopyDeps extends ConsumerDeps {
  /** Removes the positions of the log that tables of the API hold: the copy has other ones. */
  forgetPositions(tx: Transaction): Promise<void>;
}

/**
 * Copies the log with `copy`, and lets the tables of this installation follow the copy from its
 * end. Webhooks first get their deliveries for all that the log holds. Jobs stay, and the next
 * start fills the read models from the copy. Replays of earlier answers then wait for none of them.
 * From then on, no process opens the old log. Throws `unavailable` while a process of this
 * installation runs, and if one has appended meanwhile.
 *
 * A process that has lost its lock may not know that, and append. So the last transaction closes
 * the log in Postgres, and then looks for new events. It finds what was appended before, and what
 * comes later is rejected. The log is open again if the transaction does not commit. An
 * EventStoreDB cannot be closed (`whileJoined`), so the last look comes after the last such append.
 * `wait` gets the milliseconds that are left until then.
 */
export async function followCopy<Copied>(
  deps: CopyDeps,
  other: EventStore,
  copy: () => Promise<Copied>,
  wait: (ms: number) => Promise<unknown> = sleep,
): Promise<Copied> {
  const { sql, locks, logId, store, forgetPositions } = deps;
  const outbox = createOutboxConsumer(store);
  const names = allConsumers(store).map(({ name }) => name);
  const held: Held[] = [];
  const take = async (lock: string, runs: string) => {
    const taken = await locks.tryAcquire(lock);
    if (!taken)
      throw new DomainError(
        'unavailable',
        `A process of this installation still runs${runs}: stop all of them first`,
      );
    held.push(taken);
  };
  try {
    await take(RUNNING_SERVICES, '');
    const takenAt = performance.now();
    const end = await store.head();
    await catchUpIfIdle(deps, outbox);
    for (const name of names) await take(lockOf(name), ` ${name}`);
    const copied = await copy();
    const left = takenAt + LATE_APPENDS_MS - performance.now();
    if (store.engine === 'eventstoredb' && left > 0) await wait(left);
    requireAll(held);
    // All can follow the old log again until the transaction commits.
    await rebuildDispatch(sql, logId);
    await rebuildOutbox({ sql, store: other, logId }, async (tx) => {
      await forgetReadModels(tx);
      await forgetPositions(tx);
      await followEngine(tx, logId, other.engine);
      await requireEnd(store, end);
      requireAll(held);
    });
    return copied;
  } finally {
    for (const lock of held) await lock.release();
  }
}

/** Throws `unavailable` if the log has events after its end. */
async function requireEnd(log: EventStore, end: bigint | null): Promise<void> {
  for await (const { events } of readToEnd(log, [''], end)) {
    const [later] = events;
    if (later)
      throw new DomainError(
        'unavailable',
        `A process of this installation still runs: it has appended to ${later.stream}. Nothing ` +
          'follows the copy yet. Stop that process and run the copy again',
      );
  }
}

function requireAll(held: Held[]): void {
  if (held.some((lock) => !lock.isSure()))
    throw new DomainError(
      'unavailable',
      'The connection to Postgres was lost. Nothing follows the copy yet; run it again',
    );
}
