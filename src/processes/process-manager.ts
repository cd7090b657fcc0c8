/*
 * What the process managers of batches and of flows share. One process of the installation works at
 * a time. It looks at its to-do list, a read model, when that shows news, and starts what each
 * subject needs. Work that fails is set aside for a moment, and the others continue.
 */
import { listen } from '../adapters/postgres/listen.ts';
import { pause } from '../concurrency/pause.ts';
import { createWakeUp } from '../concurrency/wake-up.ts';
import { CHECKPOINT_CHANNEL } from '../projections/checkpoint.ts';
import type { ConsumerDeps } from '../projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../projections/read-models.ts';
import { untilCaughtUp } from '../projections/until-caught-up.ts';
import { inOneProcess } from './in-one-process.ts';

/** Time between two looks, while there is news. */
const LOOK_MS = 500;
/** How long without news, unless a subject is due before. A notification may be lost. */
const QUIET_MS = 5_000;
const SET_ASIDE_MS = 5_000;

/** What a process manager works on. Its log names it so. */
type Subject = { one: 'batch'; all: 'batches' } | { one: 'flow'; all: 'flows' };

export interface ProcessManager<Info> {
  subject: Subject;
  /** Returns whether it has to look after this notification: `NAME:POSITION` of a read model. */
  isNews(payload: string): boolean;
  /** Called when this process begins to work, and again after an error. */
  begin(work: UnderWay<Info>): Look | Promise<Look>;
}

/** Reads the to-do list and starts what is due. Returns the time of the next look, in epoch ms. */
export type Look = () => Promise<number>;

/** The work that is under way, by the id of its subject. */
export interface UnderWay<Info> {
  /** Returns what the caller keeps of it; undefined if no work on this subject is under way. */
  get(id: string): Info | undefined;
  all(): Info[];
  /** Starts work. It is under way until it has ended, or was set aside after an error. */
  start(id: string, info: Info, run: (stop: AbortSignal) => Promise<void>): void;
  /** Aborts the signal of work. */
  abort(id: string): void;
  /** Makes the next look come soon. The end of work does so, too. */
  lookSoon(): void;
}

/** Runs a process manager until the signal aborts, if no other process does. */
export async function runProcessManager<Info>(
  deps: ConsumerDeps,
  { subject, isNews, begin }: ProcessManager<Info>,
  signal: AbortSignal,
): Promise<void> {
  const wakeUp = createWakeUp();
  const unlisten = listen(deps.sql, CHECKPOINT_CHANNEL, (payload) => {
    if (isNews(payload)) wakeUp.wake();
  });
  signal.addEventListener('abort', wakeUp.wake);
  // A catalog that is being filled lacks endpoints. Items of a batch without an endpoint are
  // rejected for good, and a run without the endpoint of its flow fails.
  await untilCaughtUp(deps, projectionConsumer(PROJECTIONS.catalog), signal);
  await inOneProcess(deps.locks, subject.all, signal, async (held) => {
    const end = new AbortController();
    const stop = AbortSignal.any([held, end.signal]);
    const work = createUnderWay<Info>(deps, subject, wakeUp.wake, stop);
    try {
      const look = await begin(work);
      while (!stop.aborted) {
        const due = await look();
        await pause(LOOK_MS, stop);
        await wakeUp.wait(Math.max(0, Math.min(QUIET_MS - LOOK_MS, due - Date.now())));
      }
    } catch (error) {
      deps.logger.error({ err: error }, `${subject.all} could not be processed; retrying in 5 s`);
      await pause(SET_ASIDE_MS, signal);
    } finally {
      // A folder can take hours. What was done is recorded, and is not done again.
      end.abort();
      await work.ended();
    }
  });
  unlisten();
}

function createUnderWay<Info>(
  { logger }: Pick<ConsumerDeps, 'logger'>,
  { one }: Subject,
  lookSoon: () => void,
  stopping: AbortSignal,
): UnderWay<Info> & { ended(): Promise<unknown> } {
  const running = new Map<string, { info: Info; end: AbortController; done: Promise<void> }>();
  return {
    get: (id) => running.get(id)?.info,
    all: () => [...running.values()].map(({ info }) => info),
    start(id, info, run) {
      const end = new AbortController();
      const stop = AbortSignal.any([stopping, end.signal]);
      const done = run(stop)
        .catch(async (error: unknown) => {
          if (stop.aborted) return;
          logger.error(
            { err: error, [`${one}_id`]: id },
            `a ${one} could not be processed; retrying in 5 s`,
          );
          await pause(SET_ASIDE_MS, stop);
        })
        .finally(() => {
          running.delete(id);
          lookSoon();
        });
      running.set(id, { info, end, done });
    },
    abort: (id) => running.get(id)?.end.abort(),
    lookSoon,
    ended: () => Promise.all([...running.values()].map(({ done }) => done)),
  };
}
