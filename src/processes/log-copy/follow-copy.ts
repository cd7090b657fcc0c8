import { followEngine } from '../../adapters/event-store/engine-of-log.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Held } from '../../adapters/postgres/locks.ts';
import { DomainError } from '../../domain/errors.ts';
import { type ConsumerDeps, catchUpIfIdle, lockOf } from '../../projections/consumer.ts';
import { forgetReadModels, PROJECTIONS } from '../../projections/read-models.ts';
import { dispatchConsumer, rebuildDispatch } from '../dispatch/consumer.ts';
import { createOutboxConsumer, rebuildOutbox } from '../webhooks/outbox.ts';
import { RUNNING_SERVICES } from './running-services.ts';

/**
 * Copies the log with `copy`, and lets the tables of this installation follow the copy from its
 * end. Webhooks first get their deliveries for all that the log holds. Jobs stay, and the next
 * start fills the read models from the copy. From then on, no process opens the old log. Throws
 * `unavailable` while a process of this installation runs.
 */
export async function followCopy<Copied>(
  deps: ConsumerDeps,
  other: EventStore,
  copy: () => Promise<Copied>,
): Promise<Copied> {
  const { sql, locks, logId, store } = deps;
  const outbox = createOutboxConsumer(store);
  const names = [...Object.keys(PROJECTIONS), dispatchConsumer.name, outbox.name];
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
    await catchUpIfIdle(deps, outbox);
    for (const name of names) await take(lockOf(name), ` ${name}`);
    const copied = await copy();
    requireAll(held);
    // The outbox moves last, in one transaction: until then, all can follow the old log again.
    await forgetReadModels(sql);
    await rebuildDispatch(sql, logId);
    await rebuildOutbox({ sql, store: other, logId }, async (tx) => {
      await followEngine(tx, logId, other.engine);
      requireAll(held);
    });
    return copied;
  } finally {
    for (const lock of held) await lock.release();
  }
}

function requireAll(held: Held[]): void {
  if (held.some(({ signal }) => signal.aborted))
    throw new DomainError(
      'unavailable',
      'The connection to Postgres was lost. Nothing follows the copy yet; run it again',
    );
}
