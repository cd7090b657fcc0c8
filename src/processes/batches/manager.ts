/*
 * The process manager of batches. Its to-do list is the read model of batches: those that have not
 * ended. One process of the installation works on them at a time.
 *
 * actions.ts has what it does for a batch:
 * - `creating`: it lists the folder (listing.ts), if the batch is one of a folder. The pages are
 *   recorded, and all that follows derives from them. It creates the transfers of the recorded
 *   pages, and opens the batch. A request with items does that itself, so the manager takes such a
 *   batch only after a few seconds: the process of the request may have crashed.
 * - `cancelled`: it creates what is missing as cancelled transfers, and cancels those that wait.
 * - `open` or `cancelled`: when the read model of transfers shows that all transfers of the batch
 *   have ended, it appends `batch.completed`. An ended transfer stays ended, so a read model that
 *   is behind only delays this.
 *
 * What can go wrong:
 * - The process ends, or loses the lock, at any point. The next one begins again with the recorded
 *   pages. The ids of transfers derive from the batch and the place of the item, so an append that
 *   is repeated changes nothing.
 * - The read model is far behind, because it is filled from the start of the log. The stream tells
 *   that the batch was opened or has ended. Then it creates nothing: transfers that left the log
 *   would begin again.
 * - A store is unavailable, or one batch fails. It is set aside for a moment, and the others
 *   continue.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from '../../adapters/postgres/listen.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import type { Batch } from '../../domain/batches/batch.ts';
import { type CountedBatch, openBatches } from '../../projections/batches/queries.ts';
import { CHECKPOINT_CHANNEL } from '../../projections/checkpoint.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../../projections/read-models.ts';
import { untilCaughtUp } from '../../projections/until-caught-up.ts';
import { inOneProcess } from '../in-one-process.ts';
import { nextOfAccounts } from '../next-of-accounts.ts';
import { type Action, actionFor, create } from './actions.ts';

/** Time between two looks, while there is news. */
const LOOK_MS = 500;
/** How long without news. A notification may be lost, and some batches only wait for a while. */
const QUIET_MS = 5_000;
const SET_ASIDE_MS = 5_000;
/** Batches that are created at a time, without those that wait for room, or are cancelled. */
const CREATED_AT_ONCE = 10;
/** How many of them may be of one account. A large folder takes its place for hours. */
const CREATED_OF_ACCOUNT = 8;

export interface BatchManagerDeps extends ConsumerDeps {
  commands: CommandDeps;
}

/** Works on batches until the signal aborts, if no other process does. */
export async function runBatches(deps: BatchManagerDeps, signal: AbortSignal): Promise<void> {
  const wakeUp = createWakeUp();
  let open = 0;
  const isNews = (payload: string) =>
    payload.startsWith('batches:') || (open > 0 && payload.startsWith('transfers:'));
  const unlisten = listen(deps.sql, CHECKPOINT_CHANNEL, (payload) => {
    if (isNews(payload)) wakeUp.wake();
  });
  signal.addEventListener('abort', wakeUp.wake);
  // A catalog that is being filled lacks endpoints. Items without an endpoint are rejected for
  // good.
  await untilCaughtUp(deps, projectionConsumer(PROJECTIONS.catalog), signal);
  await inOneProcess(deps.locks, 'batches', signal, async (held) => {
    const round = new AbortController();
    const stop = AbortSignal.any([held, round.signal]);
    const running: Running = new Map();
    try {
      while (!stop.aborted) {
        const batches = await openBatches(deps.sql);
        open = batches.length;
        takeUp(deps, batches, running, wakeUp.wake, stop);
        await sleep(LOOK_MS, undefined, { signal: stop }).catch(() => undefined);
        await wakeUp.wait(QUIET_MS - LOOK_MS);
      }
    } catch (error) {
      deps.logger.error({ err: error }, 'batches could not be processed; retrying in 5 s');
      await sleep(SET_ASIDE_MS, undefined, { signal }).catch(() => undefined);
    } finally {
      // A folder can take hours. Its pages are recorded, so the next round continues.
      round.abort();
      await Promise.all([...running.values()].map(({ done }) => done));
    }
  });
  unlisten();
}

/** The work that is under way, by batch. */
type Running = Map<string, Work>;

interface Work {
  /** In which it began. */
  status: Batch['status'];
  accountId: string;
  /** True while it waits until its account has room for more transfers. */
  waits: boolean;
  end: AbortController;
  done: Promise<void>;
}

/** Starts the work that each batch needs now, unless it is under way. */
function takeUp(
  deps: BatchManagerDeps,
  batches: CountedBatch[],
  running: Running,
  onChange: () => void,
  stopping: AbortSignal,
): void {
  const waiting: CountedBatch[] = [];
  for (const batch of batches) {
    const { batch_id, status } = batch;
    const current = running.get(batch_id);
    // The rest is created as cancelled transfers, by the next action.
    if (status === 'cancelled' && current?.status === 'creating') current.end.abort();
    const action = current ? null : actionFor(batch);
    if (action === null) continue;
    if (status === 'creating') waiting.push(batch);
    else start(deps, batch, action, running, onChange, stopping);
  }
  for (;;) {
    const next = nextCreated(waiting, running);
    if (next === null) return;
    waiting.splice(waiting.indexOf(next), 1);
    start(deps, next, create, running, onChange, stopping);
  }
}

function start(
  deps: BatchManagerDeps,
  batch: CountedBatch,
  action: Action,
  running: Running,
  onChange: () => void,
  stopping: AbortSignal,
): void {
  const { batch_id, status, account_id: accountId } = batch;
  const end = new AbortController();
  const stop = AbortSignal.any([stopping, end.signal]);
  const work: Work = { status, accountId, waits: false, end, done: Promise.resolve() };
  running.set(batch_id, work);
  const onWait = (waits: boolean) => {
    const hasBegun = waits && !work.waits;
    work.waits = waits;
    if (hasBegun) onChange();
  };
  work.done = action(deps, batch, stop, onWait)
    .catch(async (error: unknown) => {
      if (stop.aborted) return;
      deps.logger.error(
        { err: error, batch_id },
        'a batch could not be processed; retrying in 5 s',
      );
      await sleep(SET_ASIDE_MS, undefined, { signal: stop }).catch(() => undefined);
    })
    .finally(() => {
      running.delete(batch_id);
      onChange();
    });
}

/**
 * Returns the batch that is created next; null if no place is free for any. It is the oldest one of
 * the accounts that have the fewest places. A batch that waits for room delays no other account.
 */
function nextCreated(waiting: CountedBatch[], running: Running): CountedBatch | null {
  const created = [...running.values()].filter(({ status }) => status === 'creating');
  if (created.filter(({ waits }) => !waits).length >= CREATED_AT_ONCE) return null;
  const oldestFirst = waiting.map((batch) => ({ batch, accountId: batch.account_id }));
  return nextOfAccounts(oldestFirst, created, CREATED_OF_ACCOUNT)?.batch ?? null;
}
