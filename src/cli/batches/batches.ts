import { type Command, Option } from 'commander';
import { createBatch, createFolderBatch, reserveBatch } from '../../commands/create-batch.ts';
import type { BatchAnswer } from '../../contract/batches/answers.ts';
import { batchQuery, batchRequest } from '../../contract/batches/requests.ts';
import { toBatch } from '../../contract/batches/views.ts';
import { toPage } from '../../contract/pages.ts';
import { BATCH_STATUSES, type Batch } from '../../domain/batches/batch.ts';
import type { Installation } from '../../installation.ts';
import { cancelWithTransfers, retryBatch } from '../../processes/batches/changes.ts';
import { showBatches } from '../../processes/batches/show-batches.ts';
import { listBatches } from '../../projections/batches/queries.ts';
import { requireAccount } from '../program/account.ts';
import { EXIT } from '../program/exit-codes.ts';
import { type Columns, note, print, printJson, printTable } from '../program/output.ts';
import { noteMore, type PageOptions, withPage } from '../program/page.ts';
import { globs, parseRequest, readJson } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { operator, withInstallation } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';
import {
  ACCOUNT_OPTION,
  type Common,
  type CommonCopyOptions,
  commonCopyFields,
  withCommonCopyOptions,
} from '../transfers/flags.ts';
import { REFUSAL_COLUMNS } from '../transfers/refusals.ts';
import { showBatch, watchBatch } from './show.ts';

const COLUMNS: Columns<BatchAnswer> = {
  ID: ({ id }) => id,
  STATUS: ({ failing, status }) => (failing ? `failing: ${failing.error.code}` : status),
  CREATED: ({ created_at }) => created_at,
  ITEMS: ({ counts }) => counts.items,
  COMPLETED: ({ counts }) => counts.completed,
  FAILED: ({ counts }) => counts.failed,
  SOURCE: ({ folder }) => folder?.source_uri ?? null,
};

interface WatchOptions extends Common {
  watch?: boolean;
}

interface CreateOptions extends WatchOptions, CommonCopyOptions {
  items?: string;
  pattern?: string;
  recursive?: boolean;
  exclude?: string[];
}

interface ListOptions extends Common, PageOptions {
  status?: string;
}

export function addBatchCommands(program: Command): void {
  const batches = program
    .command('batches')
    .description('create and follow batches; each copies many files');

  const creation = batches
    .command('create')
    .description('copy the files of a folder, or the items of a file')
    .argument('[source]', 'a folder, such as sftp://hospital/out/')
    .argument('[destination]', 'a folder, such as sftp://bank/in/; ends in a slash')
    .option('--pattern <glob>', 'only files that match, such as *.csv')
    .option('--recursive', 'also files of subfolders')
    .option('--exclude <globs>', 'files to leave out: a,b', globs)
    .option('--items <file>', 'a JSON list of source_uri and destination_uri; - reads stdin');
  withCommonCopyOptions(creation, 'a file')
    .option('--watch', 'follow it to its end, as `batches show --watch` does')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document; JSON lines with --watch')
    .action((source: string | undefined, destination: string | undefined, options: CreateOptions) =>
      withInstallation((installation) => create(installation, source, destination, options), {
        runsLong: options.watch,
      }),
    );

  batches
    .command('show')
    .description('show a batch; with --watch, exit code 0: completed, 6: failures, 7: cancelled')
    .argument('<batch-id>')
    .option('--watch', 'follow it to its end')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document; JSON lines with --watch')
    .action((id: string, options: WatchOptions) =>
      withInstallation(
        (installation) =>
          options.watch
            ? watchBatch(installation, id, options)
            : showBatch(installation, id, options),
        { runsLong: options.watch },
      ),
    );

  withPage(batches.command('list').description('list batches, newest first'))
    .addOption(new Option('--status <status>').choices(BATCH_STATUSES))
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action((options: ListOptions) =>
      withInstallation((installation) => list(installation, options)),
    );

  batches
    .command('cancel')
    .description('cancel the transfers of a batch that wait; exit code 4 if one is in progress')
    .argument('<batch-id>')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action((id: string, options: Common) =>
      withInstallation((installation) => cancel(installation, id, options)),
    );

  batches
    .command('retry')
    .description('copy what failed in a batch again, as a new batch')
    .argument('<batch-id>')
    .option('--watch', 'follow the new batch to its end')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document; JSON lines with --watch')
    .action((id: string, options: WatchOptions) =>
      withInstallation(
        async (installation) => {
          const reserved = reserveBatch();
          const cause = operator();
          const created = await retryBatch(
            installation,
            options.account,
            id,
            cause,
            reserved,
            false,
          );
          await printCreated(installation, created.state, options);
        },
        { runsLong: options.watch },
      ),
    );
}

async function create(
  installation: Installation,
  source_uri: string | undefined,
  destination_uri: string | undefined,
  { items, pattern, recursive, exclude, account, ...options }: CreateOptions,
): Promise<void> {
  const { commands } = installation;
  const body = {
    items: items === undefined ? undefined : await readJson(items),
    source_uri,
    destination_uri,
    pattern,
    recursive,
    exclude,
    ...commonCopyFields(options),
  };
  const request = parseRequest(batchRequest, body, 'The batch');
  await requireAccount(installation, account);
  const reserved = reserveBatch();
  const cause = operator();
  let state: Batch;
  if (request.items === undefined) {
    const created = await createFolderBatch(commands, account, request, cause, reserved);
    await commands.waitFor('batches', created.position);
    state = created.state;
  } else {
    const created = await createBatch(commands, account, request, cause, reserved, false);
    await Promise.all([
      commands.waitFor('batches', created.batch.position),
      commands.waitFor('transfers', created.position),
    ]);
    state = created.batch.state;
  }
  await printCreated(installation, state, { account, ...options });
}

async function printCreated(
  installation: Installation,
  state: Batch,
  options: WatchOptions,
): Promise<void> {
  if (options.watch) failUntilVerdict();
  if (options.json) await printJson(toBatch(state));
  else await print(state.batch_id);
  if (options.watch) return watchBatch(installation, state.batch_id, options);
  if (!options.json) note(`Follow it with \`waybill batches show ${state.batch_id} --watch\``);
}

async function list(
  installation: Installation,
  { account, json, ...options }: ListOptions,
): Promise<void> {
  const { limit, offset, status } = parseRequest(batchQuery, options, 'The filter');
  const found = await fromReadModels(
    installation,
    // That of transfers has the counts.
    ['batches', 'transfers'],
    () => listBatches(installation.sql, account, status, { limit, offset }),
    ({ total }) => total,
  );
  const batches = await showBatches(installation.sql, found.batches);
  const { data, pagination } = toPage(batches, { limit, offset }, found.total);
  if (json) return printJson({ data, pagination });
  await printTable(COLUMNS, data, 'No batches match');
  if (pagination.has_more) noteMore({ limit, offset }, data.length, found);
}

async function cancel(
  installation: Installation,
  id: string,
  { account, json }: Common,
): Promise<void> {
  const answer = await cancelWithTransfers(installation, account, id, operator());
  const { cancelled, not_cancelled, has_more } = answer;
  if (not_cancelled.length > 0) terminal().exitCode = EXIT.refused;
  if (json) await printJson(answer);
  else {
    await print(`${cancelled} cancelled, ${not_cancelled.length} not`);
    if (not_cancelled.length > 0) await printTable(REFUSAL_COLUMNS, not_cancelled, '');
  }
  if (has_more) note('The service cancels the others');
}
