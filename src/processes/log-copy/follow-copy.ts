import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Held } from '../../adapters/postgres/locks.ts';
import { DomainError } from '../../domain/errors.ts';
import { type ConsumerDeps, catchUpIfIdle, lockOf } from '../../projections/consumer.ts';
import { forgetReadModels, PROJECTIONS } from '../../projections/read-models.ts';
import { dispatchConsumer, rebuildDispatch } from '../dispatch/consumer.ts';
import { createOutboxConsumer, rebuildOutbox } from '../webhooks/outbox.ts';

/**
 * Copies the log with `copy`, and lets the tables of this installation follow the copy from its
 * end. Webhooks first get their deliveries for all that the log holds. Jobs stay, and the next start
 * fills the read models from the copy. Throws `unavailable` while a process of this installation
 * runs a consumer.
 */
export async function followCopy<Copied>(
  deps: ConsumerDeps,
  other: EventStore,
  copy: () => Promise<Copied>,
): Promise<Copied> {
  const { sql, locks, logId, store } = deps;
  const outbox = createOutboxConsumer(store);
  await catchUpIfIdle(deps, outbox);
  const names = [...Object.keys(PROJECTIONS), dispatchConsumer.name, outbox.name];
  const held: Held[] = [];
  try {
    for (const name of names) {
      const lock = await locks.tryAcquire(lockOf(name));
      if (!lock)
        throw new DomainError(
          'unavailable',
          `A process of this installation runs ${name}: stop all of them first`,
        );
      held.push(lock);
    }
    const copied = await copy();
    if (held.some(({ signal }) => signal.aborted))
      throw new DomainError(
        'unavailable',
        'The connection to Postgres was lost. Nothing follows the copy yet; run it again',
      );
    // The outbox moves last, in one transaction: until then, all can follow the old log again.
    await forgetReadModels(sql);
    await rebuildDispatch(sql, logId);
    await rebuildOutbox({ sql, store: other, logId });
    return copied;
  } finally {
    for (const lock of held) await lock.release();
  }
}
