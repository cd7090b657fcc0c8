import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import { parseDuration } from '../../domain/durations.ts';
import { DomainError } from '../../domain/errors.ts';
import { IDEMPOTENCY_HOURS } from '../../domain/idempotency.ts';
import type { Installation } from '../../installation.ts';
import { type RetentionResult, runRetention } from '../../processes/retention/run-retention.ts';
import { given, recordAccess } from '../program/access.ts';
import { EXIT } from '../program/exit-codes.ts';
import { note, print, printJson } from '../program/output.ts';
import { accountName } from '../program/parse.ts';
import { operator, withInstallation } from '../program/session.ts';
import { terminal } from '../program/terminal.ts';
import { waitForTree } from './wait-for-tree.ts';

/**
 * The least age of a transfer that leaves the log. A repeated request gets its first answer for
 * `IDEMPOTENCY_HOURS`, so the log must still have its transfer.
 */
export const SHORTEST_HOURS = 2 * IDEMPOTENCY_HOURS;

const WHEN_STOPPED =
  'Each transfer is still in the log, or a record names it: run the same command again. You can ' +
  'delete files that no record names';

const WHEN_BEHIND =
  'A process is behind the log, so recorded transfers are still in it. They leave it when the ' +
  'process has caught up: with the next run, or within a minute if the service runs with the ' +
  'role monitor';

interface Options {
  olderThan: string;
  export?: string;
  account?: string;
  dryRun?: boolean;
  json?: boolean;
}

export function addRetentionCommands(program: Command): void {
  const retention = program
    .command('retention')
    .description('export transfers that ended long ago, and remove them from the log');

  retention
    .command('run')
    .description('export transfers that ended long ago, record that, and remove them from the log')
    .requiredOption(
      '--older-than <duration>',
      `how long ago they ended, such as 400d; at least ${SHORTEST_HOURS}h`,
    )
    .addOption(
      new Option('--export <folder>', 'write their events into files of this folder').conflicts(
        'dryRun',
      ),
    )
    .option('--account <account>', 'only the transfers of this account', accountName)
    .option('--dry-run', 'only count them')
    .option('--json', 'one JSON document')
    .action((options: Options) =>
      withInstallation((installation) => run(installation, options), { runsLong: true }),
    );
}

async function run(
  installation: Installation,
  { olderThan, export: exportFolder, account, dryRun, json }: Options,
): Promise<void> {
  const folder = exportFolder ?? null;
  const age = parseDuration(olderThan);
  if (age < SHORTEST_HOURS * 3_600_000)
    throw new DomainError('validation_failed', `--older-than must be at least ${SHORTEST_HOURS}h`);
  if (folder === null && !dryRun)
    throw new DomainError('validation_failed', 'Give a folder with --export, or --dry-run');
  if (folder !== null && !(await stat(folder)).isDirectory())
    throw new DomainError('validation_failed', `${basename(folder)} is not a folder`);
  await waitForTree(installation);
  using stop = terminal().stopSignal();
  const outcome = await runRetention(
    installation,
    {
      endedBefore: new Date(Date.now() - age),
      accountId: account ?? null,
      folder: dryRun ? null : folder,
      async onExport() {
        const parameters = given({ older_than: olderThan, account });
        const data = { export: 'log', parameters } as const;
        await recordAccess(installation, { type: 'access.exported', data }, null);
      },
    },
    operator(),
    stop,
  ).catch((error: unknown) => {
    if (error === stop.reason && !dryRun) note(WHEN_STOPPED);
    throw error;
  });
  if (!outcome.completed) terminal().exitCode = EXIT.unavailable;
  if (json) return printJson(result(outcome));
  await print(summary(outcome, dryRun ?? false));
  if (!outcome.completed) note(WHEN_BEHIND);
}

function result({ checkpoint, ...outcome }: RetentionResult) {
  return {
    ...outcome,
    checkpoint: checkpoint && { size: checkpoint.size, root_hash: checkpoint.root_hash },
  };
}

function summary(
  { transfers, events, files, completed }: RetentionResult,
  dryRun: boolean,
): string {
  const counted = `${transfers} transfers with ${events} events`;
  if (dryRun) return `${counted} may leave the log`;
  return [
    completed ? `${counted} left the log` : `${counted} are recorded, and will leave the log`,
    ...files.map(({ name, sha256, transfers }) => `${sha256}  ${name}  ${transfers} transfers`),
  ].join('\n');
}
