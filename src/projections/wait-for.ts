import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from '../adapters/postgres/listen.ts';
import { createWakeUp } from '../concurrency/wake-up.ts';
import type { ProjectionName } from '../domain/projection-name.ts';
import { CHECKPOINT_CHANNEL } from './checkpoint.ts';
import type { ConsumerDeps, Pause } from './consumer.ts';
import { PROJECTIONS, projectionConsumer } from './read-models.ts';
import { catchUpIfIdle } from './run-consumer.ts';
import { catchUp } from './until-caught-up.ts';

/** After this long the caller gets its answer anyway, and readiness turns red. */
const GIVE_UP_MS = 5_000;
/** How often to read the checkpoints: notifications may be lost with a connection. */
const LOOK_MS = 250;
/** No log reaches this position. An EventStoreDB without a position sends 2^64 - 1. */
const BEYOND_EVERY_LOG = 2n ** 63n;

interface Waiter {
  name: ProjectionName;
  position: bigint;
  /** True if a caller does nothing else until the wait ends. */
  isUrgent: boolean;
  resolve(shown: boolean): void;
}

export interface ProjectionWaiter {
  /**
   * Resolves with true when the projection shows the event at `position` (at once for null).
   * Resolves with false after five seconds. An urgent wait, which is the default, ends a
   * pause of the consumer. A caller that goes on meanwhile gives false.
   */
  waitFor(name: ProjectionName, position: bigint | null, isUrgent?: boolean): Promise<boolean>;
  /**
   * Waits as `waitFor`, on behalf of a reader. Resolves with false at once while waits time out:
   * during an outage of the projections, readers get what these have.
   */
  waitToRead(name: ProjectionName, position: bigint | null): Promise<boolean>;
  /**
   * Resolves with true when the projection shows every event that the log has at the call. Resolves
   * with false after five seconds.
   */
  catchUp(name: ProjectionName): Promise<boolean>;
  /** A pause of a consumer of this process. It ends as soon as an urgent wait begins. */
  pause: Pause;
  /** Notes the position of a consumer of this process. It arrives sooner than a notification. */
  advance(name: string, position: bigint): void;
  /**
   * When a wait last timed out, by `performance.now()`. Null if none has, or one has succeeded
   * since.
   */
  lateSince(): number | null;
  close(): Promise<void>;
}

/**
 * Creates the waiter that lets callers read their own writes. It works if this process, another
 * process or none runs the projections.
 */
export function createProjectionWaiter(deps: ConsumerDeps): ProjectionWaiter {
  const { sql } = deps;
  const reached = new Map<string, bigint>();
  const waiters = new Set<Waiter>();
  /** What ends the pauses of consumers. */
  const pauses = new Map<string, () => void>();
  const wakeUp = createWakeUp();
  const closing = new AbortController();
  let late: number | null = null;
  let looking: Promise<void> | null = null;
  const unlisten = listen(sql, CHECKPOINT_CHANNEL, (payload) => {
    const [name, position] = payload.split(':');
    if (name && position && /^\d+$/.test(position)) advance(name, BigInt(position));
  });

  function advance(name: string, position: bigint): void {
    // A false position like this would make every later wait return at once.
    if (position >= BEYOND_EVERY_LOG) return;
    if (position > (reached.get(name) ?? -1n)) reached.set(name, position);
    for (const waiter of waiters) {
      if (waiter.name === name && waiter.position <= position) {
        waiters.delete(waiter);
        late = null;
        waiter.resolve(true);
      }
    }
  }

  /** Ends the waits of a projection whose tables of another version cannot be caught up. */
  function giveUp(name: ProjectionName): void {
    for (const waiter of waiters) {
      if (waiter.name !== name) continue;
      waiters.delete(waiter);
      waiter.resolve(false);
    }
  }

  /** Runs while a waiter exists: reads the checkpoints, and catches up idle projections. */
  async function look(): Promise<void> {
    while (waiters.size > 0 && !closing.signal.aborted) {
      await wakeUp.wait(LOOK_MS);
      if (waiters.size === 0) break;
      // Catching up comes first: it corrects a checkpoint that is beyond the end of the log.
      const failed: ProjectionName[] = [];
      for (const name of new Set([...waiters].map((waiter) => waiter.name))) {
        const consumer = projectionConsumer(PROJECTIONS[name]);
        await catchUpIfIdle(deps, consumer, closing.signal).catch((error: unknown) => {
          deps.logger.warn({ err: error, projection: name }, 'a projection could not be caught up');
          failed.push(name);
        });
      }
      const rows = await sql<
        { name: ProjectionName; position: bigint; version: number }[]
      >`select name, position, version from read.checkpoints`.catch(() => []);
      for (const { name, position } of rows) advance(name, position);
      for (const { name, version } of rows)
        if (failed.includes(name) && version !== PROJECTIONS[name].version) giveUp(name);
    }
    looking = null;
  }

  function waitFor(
    name: ProjectionName,
    position: bigint | null,
    isUrgent = true,
  ): Promise<boolean> {
    if (position === null || position <= (reached.get(name) ?? -1n)) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        waiters.delete(waiter);
        late = performance.now();
        resolve(false);
      }, GIVE_UP_MS);
      const waiter: Waiter = {
        name,
        position,
        isUrgent,
        resolve(shown) {
          clearTimeout(timer);
          resolve(shown);
        },
      };
      waiters.add(waiter);
      if (isUrgent) pauses.get(name)?.();
      looking ??= look();
    });
  }

  return {
    waitFor,
    async waitToRead(name, position) {
      const isLate = late !== null;
      const shown = waitFor(name, position);
      // Nothing awaits this one during an outage, but its success ends the outage.
      return isLate ? false : shown;
    },
    async catchUp(name) {
      const stop = AbortSignal.any([closing.signal, AbortSignal.timeout(GIVE_UP_MS)]);
      try {
        return await catchUp(deps, projectionConsumer(PROJECTIONS[name]), stop);
      } catch (error) {
        deps.logger.warn({ err: error, projection: name }, 'a projection could not be caught up');
        return false;
      }
    },
    pause(consumer, ms, signal) {
      const isAwaited = [...waiters].some((waiter) => waiter.isUrgent && waiter.name === consumer);
      if (isAwaited || signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const end = () => {
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          pauses.delete(consumer);
          resolve();
        };
        const timer = setTimeout(end, ms);
        signal.addEventListener('abort', end);
        pauses.set(consumer, end);
      });
    },
    advance,
    lateSince: () => late,
    async close() {
      closing.abort();
      wakeUp.wake();
      for (const waiter of waiters) waiter.resolve(false);
      waiters.clear();
      // A silent connection must not delay the shutdown. The look ends with its pool.
      await Promise.race([looking, sleep(LOOK_MS)]);
      unlisten();
    },
  };
}
