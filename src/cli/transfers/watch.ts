import { pause } from '../../concurrency/pause.ts';
import type { TransferDetail } from '../../contract/transfers/answers.ts';
import { toDetail } from '../../contract/transfers/views.ts';
import { isId } from '../../domain/ids.ts';
import type { TransferStatus } from '../../domain/transfers/transfer.ts';
import type { WaitingFor } from '../../domain/transfers/waiting-for.ts';
import type { Installation } from '../../installation.ts';
import { findWait } from '../../processes/dispatch/waiting-for.ts';
import { currentTransfer } from '../../processes/live/current-transfer.ts';
import { throwNotFound } from '../../projections/retention/removed-transfers.ts';
import { EXIT, type ExitCode } from '../program/exit-codes.ts';
import { bytes, note, print, printJson, seconds, visible } from '../program/output.ts';
import { createProgressBar, type ProgressBar } from '../program/progress.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';

const LOOK_MS = 200;
/** Interval of the progress lines if stderr is not a terminal. */
const LINE_MS = 5_000;
/** A mover needs a moment to register and to claim a transfer. */
const PATIENCE_MS = 2_000;

const ENDS: Partial<Record<TransferStatus, ExitCode>> = {
  completed: EXIT.done,
  failed: EXIT.transferFailed,
  cancelled: EXIT.transferCancelled,
};

/**
 * Shows a transfer until it ends, and sets the exit code by its final status. Throws `not_found`, and
 * Stopped if the user stops the watch.
 */
export async function watch(
  installation: Installation,
  accountId: string,
  id: string,
  json: boolean | undefined,
): Promise<void> {
  failUntilVerdict();
  using stop = terminal().stopSignal();
  const last = await follow(installation, accountId, id, {
    ...{ json, signal: stop },
    onEnd({ status }) {
      terminal().exitCode = ENDS[status] ?? EXIT.failed;
    },
  });
  if (last.status in ENDS) return;
  note(`${id} continues, but is no longer watched`);
  stop.throwIfAborted();
}

export interface FollowOptions {
  json?: boolean | undefined;
  signal: AbortSignal;
  /** Runs before the end is shown. */
  onEnd?: (detail: TransferDetail) => void;
}

/**
 * Shows a transfer until it ends or the signal aborts. Returns its last state. Throws `not_found`.
 */
export async function follow(
  installation: Installation,
  accountId: string,
  id: string,
  { json, signal, onEnd }: FollowOptions,
): Promise<TransferDetail> {
  const bar = json ? null : createProgressBar();
  const show = (detail: TransferDetail) => (json ? printJson(detail) : print(inWords(detail)));
  const showProgress = bar ? createBarUpdate(bar) : createNewsPrinter(show);
  const warn = createMoverWarning(() => bar?.clear());
  try {
    for (;;) {
      const detail = await look(installation, accountId, id);
      if (detail.status in ENDS) {
        bar?.clear();
        onEnd?.(detail);
        await show(detail);
        return detail;
      }
      if (signal.aborted) return detail;
      await showProgress(detail);
      warn(detail);
      await pause(LOOK_MS, signal);
    }
  } finally {
    bar?.clear();
  }
}

/** Returns the current state of a transfer. Throws `not_found`. */
async function look(
  installation: Installation,
  accountId: string,
  id: string,
): Promise<TransferDetail> {
  const { sql } = installation;
  const found = isId('txr', id) ? await currentTransfer(installation, accountId, id) : null;
  if (!found) return throwNotFound(sql, accountId, id);
  const { transfer, moving } = found;
  return toDetail(transfer, { moving, waiting: await findWait(sql, transfer) });
}

/** Returns a function that draws each state of a transfer as a bar. */
function createBarUpdate(bar: ProgressBar): (detail: TransferDetail) => void {
  let sized = false;
  return (detail) => {
    // The figures disappear a moment before the end of the transfer appears.
    const ending = detail.status === 'in_progress' && detail.size_bytes === null && sized;
    sized ||= detail.size_bytes !== null;
    if (!ending) bar.show(detail.progress_pct / 100, progress(detail));
  };
}

/**
 * Returns a function that shows a state of a transfer if the status is new, or if something else is
 * new and `LINE_MS` have passed.
 */
function createNewsPrinter(
  show: (detail: TransferDetail) => Promise<void>,
): (detail: TransferDetail) => Promise<void> {
  let shown = { at: Number.NEGATIVE_INFINITY, status: '', bytes: -1, wait: '' };
  return async (detail) => {
    const { status, transferred_bytes } = detail;
    const wait = detail.waiting_for?.message ?? '';
    const isOther = transferred_bytes !== shown.bytes || wait !== shown.wait;
    if (status === shown.status && !(isOther && performance.now() - shown.at > LINE_MS)) return;
    await show(detail);
    shown = { at: performance.now(), status, bytes: transferred_bytes, wait };
  };
}

/** Returns a function that warns once if a transfer still waits for a mover after `PATIENCE_MS`. */
function createMoverWarning(clear: () => void): (detail: TransferDetail) => void {
  const startedAt = performance.now();
  let warned = false;
  return ({ waiting_for }) => {
    if (warned || waiting_for?.reason !== 'no_mover') return;
    if (performance.now() - startedAt <= PATIENCE_MS) return;
    warned = true;
    clear();
    note(
      'No mover runs, so no transfer moves: start one with `waybill serve` (or `--roles mover`)',
    );
  };
}

/** Returns the message of a wait, and when the wait ends if that is known. */
export function waitInWords({ message, until }: WaitingFor): string {
  return until === null ? message : `${message} Until ${until}.`;
}

/** Returns the code of an error, the phase that tells which server it concerns, and its message. */
export function errorInWords({
  code,
  phase,
  message,
}: NonNullable<TransferDetail['error']>): string {
  return `${code} in ${phase}: ${visible(message)}`;
}

function progress({
  status,
  size_bytes,
  transferred_bytes,
  speed_bps,
  error,
  waiting_for,
}: TransferDetail): string {
  const wait = waiting_for ? `. ${waitInWords(waiting_for)}` : '';
  if (status !== 'in_progress' || wait)
    return `${status}${error ? `, after ${errorInWords(error)}` : ''}${wait}`;
  if (size_bytes === null) return 'connecting';
  const parts = [`${bytes(transferred_bytes)} of ${bytes(size_bytes)}`];
  if (speed_bps)
    parts.push(
      `${bytes(Math.round(speed_bps / 8))}/s`,
      `${seconds(((size_bytes - transferred_bytes) * 8) / speed_bps)} left`,
    );
  return parts.join('  ');
}

function at(speed: number | null): string {
  return speed ? ` at ${bytes(Math.round(speed / 8))}/s` : '';
}

function inWords(detail: TransferDetail): string {
  const { id, status, progress_pct, size_bytes, speed_bps, checksum_sha256, error } = detail;
  switch (status) {
    case 'completed':
      return `${id} completed: ${bytes(size_bytes ?? 0)}${at(speed_bps)}, SHA-256 ${checksum_sha256}`;
    case 'failed':
      return `${id} failed: ${error ? `${errorInWords(error)}\n  ${error.advice}` : ''}`;
    case 'in_progress':
      return `${id} ${Math.floor(progress_pct)} %  ${progress(detail)}`;
    default:
      return `${id} ${progress(detail)}`;
  }
}
