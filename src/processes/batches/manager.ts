/*
 * The process manager of batches. Its to-do list is the read model of batches: those that have not
 * ended. process-manager.ts looks at it, in one process of the installation at a time.
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
 */
import type { CommandDeps } from '../../commands/deps.ts';
import type { Batch } from '../../domain/batches/batch.ts';
import { type CountedBatch, openBatches } from '../../projections/batches/queries.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { nextOfAccounts } from '../next-of-accounts.ts';
import { runProcessManager, type UnderWay } from '../process-manager.ts';
import { type Action, actionFor, create } from './actions.ts';
import { forgetFailingListings } from './failing-listings.ts';

/** Batches that are created at a time, without those that wait for room, or are cancelled. */
const CREATED_AT_ONCE = 10;
/** How many of them may be of one account. A large folder takes its place for hours. */
const CREATED_OF_ACCOUNT = 8;

export interface BatchManagerDeps extends ConsumerDeps {
  commands: CommandDeps;
}

/** Works on batches until the signal aborts, if no other process does. */
export function runBatches(deps: BatchManagerDeps, signal: AbortSignal): Promise<void> {
  let open = 0;
  return runProcessManager<Work>(
    deps,
    {
      subject: { one: 'batch', all: 'batches' },
      isNews: (payload) =>
        payload.startsWith('batches:') || (open > 0 && payload.startsWith('transfers:')),
      async begin(underWay) {
        await forgetFailingListings(deps.sql);
        return async () => {
          const batches = await openBatches(deps.sql);
          open = batches.length;
          takeUp(deps, batches, underWay);
          return Number.POSITIVE_INFINITY;
        };
      },
    },
    signal,
  );
}

/** Work on a batch that is under way. */
interface Work {
  /** In which it began. */
  status: Batch['status'];
  accountId: string;
  /** True while it waits until its account has room for more transfers. */
  waits: boolean;
}

/** Starts the work that each batch needs now, unless it is under way. */
function takeUp(deps: BatchManagerDeps, batches: CountedBatch[], underWay: UnderWay<Work>): void {
  const waiting: CountedBatch[] = [];
  for (const batch of batches) {
    const { batch_id, status } = batch;
    const current = underWay.get(batch_id);
    // The rest is created as cancelled transfers, by the next action.
    if (status === 'cancelled' && current?.status === 'creating') underWay.abort(batch_id);
    const action = current ? null : actionFor(batch);
    if (action === null) continue;
    if (status === 'creating') waiting.push(batch);
    else start(deps, batch, action, underWay);
  }
  for (;;) {
    const next = nextCreated(waiting, underWay.all());
    if (next === null) return;
    waiting.splice(waiting.indexOf(next), 1);
    start(deps, next, create, underWay);
  }
}

function start(
  deps: BatchManagerDeps,
  batch: CountedBatch,
  action: Action,
  underWay: UnderWay<Work>,
): void {
  const { batch_id, status, account_id: accountId } = batch;
  const work: Work = { status, accountId, waits: false };
  const onWait = (waits: boolean) => {
    const hasBegun = waits && !work.waits;
    work.waits = waits;
    if (hasBegun) underWay.lookSoon();
  };
  underWay.start(batch_id, work, (stop) => action(deps, batch, stop, onWait));
}

/**
 * Returns the batch that is created next; null if no place is free for any. It is the oldest one of
 * the accounts that have the fewest places. A batch that waits for room delays no other account.
 */
function nextCreated(waiting: CountedBatch[], underWay: Work[]): CountedBatch | null {
  const created = underWay.filter(({ status }) => status === 'creating');
  if (created.filter(({ waits }) => !waits).length >= CREATED_AT_ONCE) return null;
  const oldestFirst = waiting.map((batch) => ({ batch, accountId: batch.account_id }));
  return nextOfAccounts(oldestFirst, created, CREATED_OF_ACCOUNT)?.batch ?? null;
}
