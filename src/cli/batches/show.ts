import { pause } from '../../concurrency/pause.ts';
import type { BatchAnswer } from '../../contract/batches/answers.ts';
import type { BatchStatus, RejectedItem } from '../../domain/batches/batch.ts';
import { notFound } from '../../domain/errors.ts';
import type { Installation } from '../../installation.ts';
import { showBatch as toAnswer } from '../../processes/batches/show-batches.ts';
import { findWaits } from '../../processes/dispatch/waiting-for.ts';
import { findBatch, listRejected } from '../../projections/batches/queries.ts';
import { listTransfers } from '../../projections/transfers/queries.ts';
import { failureOf } from '../flows/show.ts';
import { EXIT, type ExitCode } from '../program/exit-codes.ts';
import {
  bytes,
  type Columns,
  note,
  print,
  printFacts,
  printJson,
  printTable,
} from '../program/output.ts';
import { createProgressBar } from '../program/progress.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';
import type { Common } from '../transfers/flags.ts';
import { errorInWords, waitInWords } from '../transfers/watch.ts';

const LOOK_MS = 500;
/** Rejected items that `show` prints. */
const REJECTED_SHOWN = 20;

const REJECTED_COLUMNS: Columns<RejectedItem> = {
  REJECTED: ({ source_uri }) => source_uri,
  CODE: ({ error }) => error.code,
  WHY: ({ error }) => error.message,
};

const ENDS: Partial<Record<BatchStatus, ExitCode>> = {
  completed: EXIT.done,
  completed_with_failures: EXIT.transferFailed,
  cancelled: EXIT.transferCancelled,
};

async function find(stores: Installation, account: string, id: string): Promise<BatchAnswer> {
  const found = await findBatch(stores, account, id);
  if (!found) throw notFound('batch');
  return toAnswer(stores.sql, found);
}

/**
 * Shows one bar for all files until the batch ends. Sets the exit code by its status. Throws Stopped
 * if the user stops the watch.
 */
export async function watchBatch(
  installation: Installation,
  id: string,
  options: Common,
): Promise<void> {
  failUntilVerdict();
  const { account, json } = options;
  using stop = terminal().stopSignal();
  const bar = json ? null : createProgressBar();
  for (;;) {
    const batch = await find(installation, account, id);
    if (batch.ended_at !== null || stop.aborted) {
      bar?.clear();
      terminal().exitCode = ENDS[batch.status] ?? EXIT.failed;
      await showBatch(installation, id, options);
      if (batch.ended_at !== null) return;
      note(`${id} continues, but is no longer watched`);
      stop.throwIfAborted();
    }
    bar?.show(...progressOf(batch));
    await pause(LOOK_MS, stop);
  }
}

/** Returns the share of the items that have ended, and what the bar says beside it. */
function progressOf({
  counts,
  bytes: size,
  status,
  failing,
}: BatchAnswer): [share: number, text: string] {
  const { items, completed, failed, cancelled } = counts;
  const ended = completed + failed + cancelled;
  const failures = failed > 0 ? `, ${failed} failed` : '';
  const trouble = failing
    ? `, cannot list the folder: ${failing.error.message}`
    : ', still listing';
  const listing = status === 'creating' ? trouble : '';
  return [
    items === 0 ? 0 : ended / items,
    `${ended} of ${items} files, ${bytes(size.completed)}${failures}${listing}`,
  ];
}

/** Returns why nothing of a batch moves, as its oldest waiting transfer says. */
async function waitOf({ sql }: Installation, account: string, { id, counts, status }: BatchAnswer) {
  if (status !== 'open' || counts.in_progress > 0) return {};
  const filter = { batchId: id, status: counts.queued > 0 ? 'queued' : 'pending' } as const;
  const page = { limit: 1, offset: 0, sort: 'created_at' } as const;
  const { transfers } = await listTransfers(sql, account, filter, page);
  const [wait] = (await findWaits(sql, transfers)).values();
  const error = transfers[0]?.facts.error;
  return {
    ...(wait && { 'waiting for': `${wait.reason}: ${waitInWords(wait)}` }),
    ...(error && { error: errorInWords(error) }),
  };
}

/** Prints a batch, with the first of its rejected items. */
export async function showBatch(
  installation: Installation,
  id: string,
  { account, json }: Common,
): Promise<void> {
  const batch = await find(installation, account, id);
  if (json) return printJson(batch);
  const { folder, counts, failing } = batch;
  await printFacts({
    id,
    account,
    status: batch.status,
    ...(failing && failureOf(failing)),
    ...(folder && { source: folder.source_uri, destination: folder.destination_uri }),
    ...(folder && { pattern: `${folder.pattern}${folder.recursive ? ', with subfolders' : ''}` }),
    ...(batch.retry_of && { 'retry of': batch.retry_of }),
    items: counts.items,
    waiting: counts.pending + counts.queued,
    'in progress': counts.in_progress,
    completed: `${counts.completed} (${bytes(batch.bytes.completed)})`,
    failed: counts.failed,
    cancelled: counts.cancelled,
    created: batch.created_at,
    ended: batch.ended_at,
    ...(await waitOf(installation, account, batch)),
  });
  if (counts.rejected === 0) return;
  const page = { limit: REJECTED_SHOWN, offset: 0 };
  const { items, total } = await listRejected(installation.sql, id, page);
  await print('');
  await printTable(REJECTED_COLUMNS, items, '');
  if (total > items.length) note(`${total - items.length} more were rejected`);
}
