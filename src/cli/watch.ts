import { setTimeout as sleep } from 'node:timers/promises';
import { isId } from '../domain/ids.ts';
import { notFound, type TransferStatus } from '../domain/transfer.ts';
import type { TransferDetail } from '../http/transfers/schemas.ts';
import { toDetail } from '../http/transfers/views.ts';
import type { Installation } from '../installation.ts';
import { MOVERS_SEEN_WITHIN_S } from '../processes/outlook.ts';
import { currentTransfer } from '../projections/current-transfer.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { bytes, note, print, printJson, seconds, visible } from './output.ts';
import { createProgressBar } from './progress.ts';
import { stopSignal } from './session.ts';

const LOOK_MS = 200;
/** Between two lines about the progress, where there is no terminal to draw on. */
const LINE_MS = 5_000;
/** A mover takes a moment to be seen, and to take something up. */
const PATIENCE_MS = 2_000;

const ENDS: Partial<Record<TransferStatus, ExitCode>> = {
  completed: EXIT.done,
  failed: EXIT.transferFailed,
  cancelled: EXIT.transferCancelled,
};

/** Shows a transfer until it has ended, and sets the exit code by its end. Throws `not_found`. */
export async function watch(installation: Installation, accountId: string, id: string, json: boolean | undefined): Promise<void> {
  const last = await follow(installation, accountId, id, { json, signal: stopSignal() });
  process.exitCode = ENDS[last.status] ?? EXIT.failed;
  if (!(last.status in ENDS)) note(`${id} goes on without being watched`);
}

/** Shows a transfer until it has ended or the signal aborts; how it was then. Throws `not_found`. */
export async function follow(
  installation: Installation,
  accountId: string,
  id: string,
  { json, signal }: { json?: boolean | undefined; signal: AbortSignal },
): Promise<TransferDetail> {
  const { sql } = installation;
  const bar = json ? null : createProgressBar();
  const show = (detail: TransferDetail) => (json ? printJson(detail) : print(inWords(detail)));
  const began = Date.now();
  let warned = false;
  let sized = false;
  let shown = { at: 0, status: '', bytes: -1 };
  try {
    for (;;) {
      const found = isId('txr', id) ? await currentTransfer(installation, accountId, id) : null;
      if (!found) throw notFound();
      const detail = toDetail(found.transfer, found.moving);
      if (detail.status in ENDS) {
        bar?.clear();
        await show(detail);
        return detail;
      }
      if (signal.aborted) return detail;
      // Its figures go a moment before its end is told.
      const arriving = detail.status === 'in_progress' && detail.size_bytes === null && sized;
      sized ||= detail.size_bytes !== null;
      if (!arriving) bar?.show(detail.progress_pct / 100, progress(detail));
      const news = detail.status !== shown.status || (detail.transferred_bytes !== shown.bytes && Date.now() - shown.at > LINE_MS);
      if (!bar && news) {
        await show(detail);
        shown = { at: Date.now(), status: detail.status, bytes: detail.transferred_bytes };
      }
      if (!warned && detail.status !== 'in_progress' && Date.now() - began > PATIENCE_MS && !(await moverRuns(sql))) {
        warned = true;
        bar?.clear();
        note('No mover runs, so nothing will move: start one with `waybill serve` (or `--roles mover`)');
      }
      await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  } finally {
    bar?.clear();
  }
}

async function moverRuns(sql: Installation['sql']): Promise<boolean> {
  const [row] = await sql<{ runs: boolean }[]>`
    select exists (select from work.movers where seen_at > now() - ${MOVERS_SEEN_WITHIN_S} * interval '1 second') as runs`;
  return row?.runs ?? false;
}

function progress({ status, size_bytes, transferred_bytes, speed_bps, error }: TransferDetail): string {
  if (status !== 'in_progress') return error ? `${status}, after ${error.code}: ${visible(error.message)}` : status;
  if (size_bytes === null) return 'connecting';
  const parts = [`${bytes(transferred_bytes)} of ${bytes(size_bytes)}`];
  if (speed_bps) parts.push(`${bytes(Math.round(speed_bps / 8))}/s`, `${seconds(((size_bytes - transferred_bytes) * 8) / speed_bps)} left`);
  return parts.join('  ');
}

export function inWords(detail: TransferDetail): string {
  const { id, status, progress_pct, size_bytes, speed_bps, checksum_sha256, error } = detail;
  switch (status) {
    case 'completed':
      return `${id} completed: ${bytes(size_bytes ?? 0)}${speed_bps ? ` at ${bytes(Math.round(speed_bps / 8))}/s` : ''}, SHA-256 ${checksum_sha256}`;
    case 'failed':
      return `${id} failed: ${error?.code}: ${visible(error?.message ?? '')}\n  ${error?.advice}`;
    case 'in_progress':
      return `${id} ${Math.floor(progress_pct)} %  ${progress(detail)}`;
    default:
      return `${id} ${progress(detail)}`;
  }
}
