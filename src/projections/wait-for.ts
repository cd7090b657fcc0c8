import { createBell } from '../bell.ts';
import type { ProjectionName } from '../commands/deps.ts';
import { CHECKPOINT_CHANNEL } from './checkpoint.ts';
import { type ConsumerDeps, catchUpIfIdle } from './consumer.ts';
import { PROJECTIONS, projectionConsumer } from './read-models.ts';

/** After this the caller is answered anyway, and readiness turns red. */
const GIVE_UP_MS = 5_000;
/** Notifications may be lost with a connection: look for oneself this often. */
const LOOK_MS = 250;

interface Waiter {
  name: ProjectionName;
  position: bigint;
  resolve(shown: boolean): void;
}

export interface ProjectionWaiter {
  /** True when the projection shows the event at `position` (at once for null); false when it did not within five seconds. */
  waitFor(name: ProjectionName, position: bigint | null): Promise<boolean>;
  /** Told by a consumer of this process how far it has come: sooner than by the notification. */
  advance(name: string, position: bigint): void;
  /** When a wait last came to nothing, in epoch milliseconds; null if it never did or has since been made good. */
  lateSince(): number | null;
  close(): Promise<void>;
}

/** Lets a caller read his own writes: whichever process runs the projections, or none. */
export function createProjectionWaiter(deps: ConsumerDeps): ProjectionWaiter {
  const { sql } = deps;
  const reached = new Map<string, bigint>();
  const waiters = new Set<Waiter>();
  const bell = createBell();
  const closing = new AbortController();
  let late: number | null = null;
  let looking: Promise<void> | null = null;
  const listening = sql.listen(CHECKPOINT_CHANNEL, (payload) => {
    const [name, position] = payload.split(':');
    if (name && position && /^\d+$/.test(position)) advance(name, BigInt(position));
  });
  listening.catch(() => undefined);

  function advance(name: string, position: bigint): void {
    if (position > (reached.get(name) ?? -1n)) reached.set(name, position);
    for (const waiter of waiters) {
      if (waiter.name === name && waiter.position <= position) {
        waiters.delete(waiter);
        late = null;
        waiter.resolve(true);
      }
    }
  }

  /** Runs while anybody waits: looks at the checkpoints, and catches up where no process does. */
  async function look(): Promise<void> {
    while (waiters.size > 0 && !closing.signal.aborted) {
      await bell.wait(LOOK_MS);
      const rows = await sql<{ name: string; position: bigint }[]>`select name, position from read.checkpoints`.catch(() => []);
      for (const { name, position } of rows) advance(name, position);
      for (const name of new Set([...waiters].map((waiter) => waiter.name))) {
        await catchUpIfIdle(deps, projectionConsumer(PROJECTIONS[name])).catch((error: unknown) =>
          deps.logger.warn({ err: error, projection: name }, 'a projection could not be caught up'),
        );
      }
    }
    looking = null;
  }

  return {
    waitFor(name, position) {
      if (position === null || position <= (reached.get(name) ?? -1n)) return Promise.resolve(true);
      return new Promise((resolve) => {
        const timer = setTimeout(() => {
          waiters.delete(waiter);
          late = Date.now();
          resolve(false);
        }, GIVE_UP_MS);
        const waiter: Waiter = {
          name,
          position,
          resolve(shown) {
            clearTimeout(timer);
            resolve(shown);
          },
        };
        waiters.add(waiter);
        looking ??= look();
      });
    },
    advance,
    lateSince: () => late,
    async close() {
      closing.abort();
      bell.ring();
      for (const waiter of waiters) waiter.resolve(false);
      waiters.clear();
      await looking;
      await (await listening.catch(() => null))?.unlisten().catch(() => undefined);
    },
  };
}
