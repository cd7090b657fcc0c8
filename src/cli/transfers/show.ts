import type { Command } from 'commander';
import type { AfterAnswer } from '../../contract/transfers/after.ts';
import { type Live, toDetail } from '../../contract/transfers/views.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import type { Installation } from '../../installation.ts';
import { lastErrorAfter } from '../../processes/after/table.ts';
import { findWait } from '../../processes/dispatch/waiting-for.ts';
import { currentTransfer } from '../../processes/live/current-transfer.ts';
import { throwNotFound } from '../../projections/retention/removed-transfers.ts';
import { bytes, printFacts, printJson } from '../program/output.ts';
import { withInstallation } from '../program/session.ts';
import { ACCOUNT_OPTION, afterInWords, type Common } from './flags.ts';
import { errorInWords, waitInWords, watch } from './watch.ts';

/** Adds the commands that show and follow one transfer. */
export function addShowCommands(transfers: Command): void {
  transfers
    .command('get')
    .description('show one transfer in detail')
    .argument('<transfer-id>')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action(async (id: string, { account, json }: Common) => {
      const { transfer, ...live } = await withInstallation((installation) =>
        load(installation, account, id),
      );
      if (json) await printJson(toDetail(transfer, live));
      else await printTransfer(transfer, live);
    });

  transfers
    .command('watch')
    .description('follow a transfer to its end; exit code 0: completed, 6: failed, 7: cancelled')
    .argument('<transfer-id>')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'JSON lines')
    .action((id: string, { account, json }: Common) =>
      withInstallation((installation) => watch(installation, account, id, json), {
        runsLong: true,
      }),
    );
}

/** Returns a transfer with what its events do not tell. Throws `not_found`. */
async function load(
  installation: Installation,
  account: string,
  id: string,
): Promise<Live & { transfer: Transfer }> {
  const { sql } = installation;
  const found = await currentTransfer(installation, account, id);
  if (!found) return throwNotFound(sql, account, id);
  const [waiting, afterError] = await Promise.all([
    findWait(sql, found.transfer),
    lastErrorAfter(sql, found.transfer),
  ]);
  return { ...found, waiting, afterError };
}

export async function printTransfer(transfer: Transfer, live?: Live): Promise<void> {
  const detail = toDetail(transfer, live);
  const { error, waiting_for } = detail;
  await printFacts({
    id: detail.id,
    account: transfer.facts.account_id,
    status: detail.status,
    ...(waiting_for && { 'waiting for': `${waiting_for.reason}: ${waitInWords(waiting_for)}` }),
    source: detail.source,
    destination: detail.destination,
    size: detail.size_bytes === null ? null : bytes(detail.size_bytes),
    moved: `${bytes(detail.transferred_bytes)} (${detail.progress_pct} %)`,
    speed: detail.speed_bps === null ? null : `${bytes(Math.round(detail.speed_bps / 8))}/s`,
    sha256: detail.checksum_sha256,
    ...(detail.expected_sha256 && { 'expected sha256': detail.expected_sha256 }),
    ...(detail.verify && { verify: detail.verify }),
    ...(detail.preserve_mtime && { 'preserve mtime': 'yes' }),
    ...(detail.after && { after: afterAnswerInWords(detail.after) }),
    ...(detail.retry_of && { 'retry of': detail.retry_of }),
    ...(detail.batch_id && { batch: detail.batch_id }),
    priority: detail.priority,
    created: detail.created_at,
    ended: detail.ended_at,
    retries: detail.retry_count,
    error: error && errorInWords(error),
    ...(error ? { advice: error.advice } : {}),
  });
}

function afterAnswerInWords(after: AfterAnswer): string {
  const { state, reason } = after;
  const because = reason ? ` (${reason.code}: ${reason.message})` : '';
  return `${afterInWords(after)}: ${state.replace('_', ' ')}${because}`;
}
