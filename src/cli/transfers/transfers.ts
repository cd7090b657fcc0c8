import { type Command, Option } from 'commander';
import { createTransfer } from '../../commands/create-transfer.ts';
import type { Handled } from '../../commands/handle.ts';
import { abortTransfer, cancelTransfer } from '../../commands/transfers.ts';
import { toSearchPage } from '../../contract/pages.ts';
import type { AfterAnswer } from '../../contract/transfers/after.ts';
import { transfersToCsv } from '../../contract/transfers/csv.ts';
import { listQuery, toFilter, transferRequest } from '../../contract/transfers/requests.ts';
import { type Live, toCreated, toDetail, toListItem } from '../../contract/transfers/views.ts';
import { PRIORITIES, SORT_ORDERS, type Transfer } from '../../domain/transfers/transfer.ts';
import type { Installation } from '../../installation.ts';
import { lastErrorAfter } from '../../processes/after/table.ts';
import { findWait, findWaits } from '../../processes/dispatch/waiting-for.ts';
import { currentTransfer } from '../../processes/live/current-transfer.ts';
import { throwNotFound } from '../../projections/retention/removed-transfers.ts';
import { readHistory } from '../../projections/transfers/history.ts';
import { eachTransfer, listTransfers } from '../../projections/transfers/queries.ts';
import { given, recordAccess } from '../program/access.ts';
import { requireAccount } from '../program/account.ts';
import { bytes, print, printFacts, printJson, printTable, write } from '../program/output.ts';
import { noteMore, withPage } from '../program/page.ts';
import { keyValue, parseRequest } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { operator, withInstallation } from '../program/session.ts';
import { addTransferChanges, printCreated } from './changes.ts';
import {
  ACCOUNT_OPTION,
  type AfterOptions,
  afterOf,
  type Common,
  type FilterOptions,
  filtersOf,
  METADATA_OPTION,
  PRESERVE_MTIME_OPTION,
  readModelsOf,
  verifyOption,
  withAfter,
  withFilters,
} from './flags.ts';
import { waitInWords, watch } from './watch.ts';

interface CreateOptions extends Common, AfterOptions {
  priority: string;
  metadata?: Record<string, string>;
  notifyOnComplete?: boolean;
  watch?: boolean;
  expectedSha256?: string;
  verify?: string;
  preserveMtime?: boolean;
}

interface ListOptions extends Common, FilterOptions {
  sort?: string;
  csv?: boolean;
  limit?: string;
  offset?: string;
}

export function addTransferCommands(program: Command): void {
  const transfers = program
    .command('transfers')
    .description('create and follow transfers; each copies one file');

  withAfter(transfers.command('create').description('copy a file'))
    .argument(
      '<source>',
      'such as sftp://hospital/out/report.csv, with the name of an endpoint or its host',
    )
    .argument('<destination>', 'if it ends in a slash, the file name is appended')
    .addOption(new Option('--priority <priority>').choices(PRIORITIES).default('normal'))
    .option(...METADATA_OPTION, keyValue)
    .option('--notify-on-complete', 'notify all webhooks of the account when it has ended')
    .option('--expected-sha256 <hex>', 'fail unless the file has this SHA-256')
    .addOption(verifyOption())
    .option(...PRESERVE_MTIME_OPTION)
    .option('--watch', 'follow it to its end, as `transfers watch` does')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document; JSON lines with --watch')
    .action((source: string, destination: string, options: CreateOptions) =>
      withInstallation((installation) => create(installation, source, destination, options), {
        runsLong: options.watch,
      }),
    );

  withPage(withFilters(transfers.command('list').description('list transfers, newest first')))
    .addOption(new Option('--sort <order>').choices(SORT_ORDERS).default('-created_at'))
    .option(...ACCOUNT_OPTION)
    .addOption(new Option('--csv', 'all matches as CSV').conflicts(['json', 'limit', 'offset']))
    .option('--json', 'one JSON document, as the API answers')
    .action((options: ListOptions) =>
      withInstallation((installation) => list(installation, options), { runsLong: options.csv }),
    );

  transfers
    .command('get')
    .description('show one transfer in detail')
    .argument('<transfer-id>')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action(async (id: string, { account, json }: Common) => {
      const { transfer, ...live } = await withInstallation(async (installation) => {
        const found = await currentTransfer(installation, account, id);
        const { sql } = installation;
        if (!found) return throwNotFound(sql, account, id);
        const [waiting, afterError] = await Promise.all([
          findWait(sql, found.transfer),
          lastErrorAfter(sql, found.transfer),
        ]);
        return { ...found, waiting, afterError };
      });
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

  const end = (
    verb: 'cancel' | 'abort',
    description: string,
    work: (installation: Installation, id: string) => Promise<Handled<Transfer>>,
  ) =>
    transfers
      .command(verb)
      .description(description)
      .argument('<transfer-id>')
      .option(...ACCOUNT_OPTION)
      .option('--json', 'one JSON document')
      .action(async (id: string, { account, json }: Common) => {
        const state = await withInstallation(async (installation) => {
          await readHistory(installation, account, id);
          const { state, position } = await work(installation, id);
          await installation.commands.waitFor('transfers', position);
          return state;
        });
        if (json) await printJson(toDetail(state));
        else await print(`${id} is ${state.status}`);
      });
  end('cancel', 'cancel a pending or queued transfer', ({ commands }, id) =>
    cancelTransfer(commands, id, operator()),
  );
  end('abort', 'end a transfer in progress as failed', ({ commands }, id) =>
    abortTransfer(commands, id, operator()),
  );
  addTransferChanges(transfers);
}

async function create(
  installation: Installation,
  source_uri: string,
  destination_uri: string,
  options: CreateOptions,
): Promise<void> {
  const { priority, metadata, account, json } = options;
  const body = {
    source_uri,
    destination_uri,
    priority,
    metadata,
    notify_on_complete: options.notifyOnComplete ?? false,
    expected_sha256: options.expectedSha256,
    verify: options.verify,
    preserve_mtime: options.preserveMtime,
    after: afterOf(options),
  };
  const request = parseRequest(transferRequest, body, 'The transfer');
  await requireAccount(installation, account);
  const created = await createTransfer(installation.commands, account, request, operator());
  await printCreated(installation, created, toCreated, { account, json, watch: options.watch });
}

async function list(
  installation: Installation,
  { account, json, csv, limit: atMost, offset: after, sort: order, ...options }: ListOptions,
): Promise<void> {
  const { sql } = installation;
  const query = parseRequest(
    listQuery,
    {
      ...filtersOf(options),
      retried: options.retried?.toString(),
      limit: atMost,
      offset: after,
      sort: order,
    },
    'The filter',
  );
  const { limit, offset, sort, ...filters } = query;
  const filter = toFilter(filters);
  const found = await fromReadModels(
    installation,
    readModelsOf(filter),
    () => listTransfers(sql, account, filter, { limit, offset, sort }),
    ({ total }) => total,
  );
  if (csv) {
    const data = { export: 'transfers', parameters: given({ sort, ...filters }) } as const;
    await recordAccess(installation, { type: 'access.exported', data }, account);
    for await (const piece of transfersToCsv(eachTransfer(sql, account, filter, sort)))
      await write(piece);
    return;
  }
  const { transfers, total } = found;
  const waits = await findWaits(sql, transfers);
  const items = transfers.map((transfer) =>
    toListItem(transfer, waits.get(transfer.facts.transfer_id) ?? null),
  );
  const { data, pagination } = toSearchPage(items, { limit, offset }, found);
  if (json) return printJson({ data, pagination });
  const rows = data.map((item) => [
    item.id,
    item.status,
    item.waiting_for?.reason ?? null,
    item.created_at,
    item.size_bytes === null ? null : bytes(item.size_bytes),
    item.source,
    item.destination,
  ]);
  await printTable(
    ['ID', 'STATUS', 'WAITING FOR', 'CREATED', 'SIZE', 'SOURCE', 'DESTINATION'],
    rows,
    'No transfers match',
  );
  if (pagination.has_more)
    noteMore(query, transfers.length, { total, isExact: found.totalIsExact });
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
    ...(detail.after && { after: afterInWords(detail.after) }),
    ...(detail.retry_of && { 'retry of': detail.retry_of }),
    ...(detail.batch_id && { batch: detail.batch_id }),
    priority: detail.priority,
    created: detail.created_at,
    completed: detail.completed_at,
    retries: detail.retry_count,
    error: error && `${error.code}: ${error.message}`,
    ...(error ? { advice: error.advice } : {}),
  });
}

function afterInWords({ source, destination_marker, state, reason }: AfterAnswer): string {
  const action =
    typeof source === 'object' ? `move the source to ${source.move_to}` : `${source} the source`;
  const steps = destination_marker === null ? action : `write ${destination_marker}, ${action}`;
  const because = reason ? ` (${reason.code}: ${reason.message})` : '';
  return `${steps}: ${state.replace('_', ' ')}${because}`;
}
