import { type Command, Option } from 'commander';
import type { Handled } from '../commands/handle.ts';
import { transferRequest } from '../commands/requests.ts';
import { abortTransfer, cancelTransfer, createTransfer } from '../commands/transfers.ts';
import { type AttemptFigures, notFound, PRIORITIES, TRANSFER_STATUSES, type Transfer } from '../domain/transfer.ts';
import { toPagination } from '../http/pages.ts';
import { readHistory } from '../http/transfers/history.ts';
import { listQuery } from '../http/transfers/schemas.ts';
import { toCreated, toDetail, toListItem } from '../http/transfers/views.ts';
import type { Installation } from '../installation.ts';
import { currentTransfer } from '../projections/current-transfer.ts';
import { listTransfers } from '../projections/transfer-queries.ts';
import { bytes, note, print, printFacts, printJson, printTable } from './output.ts';
import { keyValue, parseRequest } from './parse.ts';
import { operator, withInstallation } from './session.ts';
import { watch } from './watch.ts';

export const ACCOUNT_OPTION = ['--account <account>', 'whose transfers', 'acc_default'] as const;

interface Common {
  account: string;
  json?: boolean;
}

interface CreateOptions extends Common {
  priority: string;
  metadata: Record<string, string>;
  notifyOnComplete?: boolean;
  watch?: boolean;
}

interface ListOptions extends Common {
  status?: string;
  from?: string;
  to?: string;
  destination?: string;
  limit?: string;
  offset?: string;
}

export function addTransferCommands(program: Command): void {
  const transfers = program.command('transfers').description('copies of files, one each');

  transfers
    .command('create')
    .description('copy a file')
    .argument('<source>', 'such as sftp://hospital/out/report.csv, with the name of an endpoint or its host')
    .argument('<destination>', 'the file name is appended where it ends in a slash')
    .addOption(new Option('--priority <priority>').choices(PRIORITIES).default('normal'))
    .option('--metadata <key=value>', 'your own, up to ten times', keyValue, {})
    .option('--notify-on-complete', "tell the account's webhooks of its end")
    .option('--watch', 'follow it to its end, as `transfers watch` does')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document; JSON lines with --watch')
    .action((source: string, destination: string, options: CreateOptions) =>
      withInstallation((installation) => create(installation, source, destination, options)),
    );

  transfers
    .command('list')
    .description('transfers, newest first')
    .addOption(new Option('--status <status>').choices(TRANSFER_STATUSES))
    .option('--from <time>', 'created on or after this date or time')
    .option('--to <time>', 'created on or before this date or time')
    .option('--destination <start>', 'start of the destination')
    .option('--limit <number>', 'up to 100', '25')
    .option('--offset <number>', 'how many to skip', '0')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action((options: ListOptions) => withInstallation((installation) => list(installation, options)));

  transfers
    .command('get')
    .description('all that is known of one')
    .argument('<transfer-id>')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action(async (id: string, { account, json }: Common) => {
      const found = await withInstallation((installation) => currentTransfer(installation, account, id));
      if (!found) throw notFound();
      if (json) await printJson(toDetail(found.transfer, found.moving));
      else await printTransfer(found.transfer, found.moving);
    });

  transfers
    .command('watch')
    .description('follow one to its end: exit code 0 completed, 6 failed, 7 cancelled')
    .argument('<transfer-id>')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'JSON lines')
    .action((id: string, { account, json }: Common) => withInstallation((installation) => watch(installation, account, id, json)));

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
          await readHistory(installation.store, account, id);
          const { state, position } = await work(installation, id);
          await installation.commands.waitFor('transfers', position);
          return state;
        });
        if (json) await printJson(toDetail(state, null));
        else await print(`${id} is ${state.status}`);
      });
  end('cancel', 'cancel one that is pending or queued', ({ commands }, id) => cancelTransfer(commands, id, operator()));
  end('abort', 'end one in progress as failed', ({ commands }, id) => abortTransfer(commands, id, operator()));
}

async function create(installation: Installation, source_uri: string, destination_uri: string, options: CreateOptions): Promise<void> {
  const { priority, metadata, account, json } = options;
  const wanted = { source_uri, destination_uri, priority, metadata, notify_on_complete: options.notifyOnComplete ?? false };
  const request = parseRequest(transferRequest, wanted, 'The transfer');
  const { state, position } = await createTransfer(installation.commands, account, request, operator());
  const id = state.facts.transfer_id;
  await installation.commands.waitFor('transfers', position);
  if (json) await printJson(toCreated(state));
  else await print(id);
  if (options.watch) return watch(installation, account, id, json);
  if (!json) note(`\`waybill transfers watch ${id}\` follows it`);
}

async function list({ sql }: Installation, { account, json, from, to, ...options }: ListOptions): Promise<void> {
  const query = parseRequest(listQuery, { ...options, from_date: from, to_date: to }, 'The filter');
  const { status, from_date, to_date, destination, limit, offset } = query;
  const { transfers, total } = await listTransfers(sql, account, { status, from: from_date, to: to_date, destination }, { limit, offset });
  const pagination = toPagination({ limit, offset }, transfers.length, total);
  if (json) return printJson({ data: transfers.map(toListItem), pagination });
  const rows = transfers.map(({ status, facts }) => [
    facts.transfer_id,
    status,
    facts.created_at,
    facts.size_bytes === null ? null : bytes(facts.size_bytes),
    facts.source,
    facts.destination,
  ]);
  await printTable(['ID', 'STATUS', 'CREATED', 'SIZE', 'SOURCE', 'DESTINATION'], rows, 'No transfers match');
  if (pagination.has_more) note(`${offset + 1} to ${offset + transfers.length} of ${total}; --offset ${offset + limit} shows more`);
}

export async function printTransfer(transfer: Transfer, moving: AttemptFigures | null): Promise<void> {
  const detail = toDetail(transfer, moving);
  const { error } = detail;
  await printFacts({
    id: detail.id,
    status: detail.status,
    source: detail.source,
    destination: detail.destination,
    size: detail.size_bytes === null ? null : bytes(detail.size_bytes),
    moved: `${bytes(detail.transferred_bytes)} (${detail.progress_pct} %)`,
    speed: detail.speed_bps === null ? null : `${bytes(Math.round(detail.speed_bps / 8))}/s`,
    sha256: detail.checksum_sha256,
    created: detail.created_at,
    completed: detail.completed_at,
    retries: detail.retry_count,
    error: error && `${error.code}: ${error.message}`,
    ...(error ? { advice: error.advice } : {}),
  });
}
