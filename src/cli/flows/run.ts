import { loadFlow, requestRun } from '../../commands/flows.ts';
import type { DryRun } from '../../contract/flows/answers.ts';
import { newId } from '../../domain/ids.ts';
import { isNetworkFailure, type TransferErrorCode } from '../../domain/transfers/errors.ts';
import type { Installation } from '../../installation.ts';
import { dryRun } from '../../processes/flows/dry-run.ts';
import { EXIT } from '../program/exit-codes.ts';
import { type Columns, note, print, printJson, printTable } from '../program/output.ts';
import { operator } from '../program/session.ts';
import { terminal } from '../program/terminal.ts';
import type { Common } from '../transfers/flags.ts';

const COLUMNS: Columns<DryRun['data'][number]> = {
  FILE: ({ path }) => path,
  DECISION: ({ decision }) => decision,
  WHY: ({ reason }) => reason,
  DESTINATION: ({ destination_uri }) => destination_uri,
};

/** Asks for a run, and prints its id. */
export async function runFlow(
  { commands }: Installation,
  id: string,
  { account, json }: Common,
): Promise<void> {
  const { runId } = await requestRun(commands, account, id, newId('run'), operator());
  if (json) return printJson({ id: runId, status: 'requested' });
  await print(runId);
  note(`Follow it with \`waybill flows show ${id}\``);
}

/**
 * Prints what a run would take. Fails if the folder cannot be listed. Throws Stopped if the user
 * stops it: the list would lack files.
 */
export async function dryRunFlow(
  { sql, commands }: Installation,
  id: string,
  { account, json }: Common,
): Promise<void> {
  const { state } = await loadFlow(commands, account, id);
  using stop = terminal().stopSignal();
  const answer = await dryRun({ sql, commands }, state, stop);
  stop.throwIfAborted();
  const { error } = answer;
  // Files of other folders are a result. Without any, the folder may be empty or unreachable.
  const failed = error !== null && answer.data.length === 0;
  if (failed)
    terminal().exitCode = isNetworkFailure(error.code as TransferErrorCode)
      ? EXIT.unavailable
      : EXIT.failed;
  if (json) return printJson(answer);
  if (!failed) await printTable(COLUMNS, answer.data, 'The folder has no file that matches');
  if (error) note(`${error.folder || 'The folder'}: ${error.message}`);
  if (answer.truncated) note('There are more files');
}
