import { type Command, Option } from 'commander';
import { toSearchPage } from '../../contract/pages.ts';
import type { TransferListItem } from '../../contract/transfers/answers.ts';
import { transfersToCsv } from '../../contract/transfers/csv.ts';
import { listQuery, toFilter } from '../../contract/transfers/requests.ts';
import { toListItem } from '../../contract/transfers/views.ts';
import { SORT_ORDERS } from '../../domain/transfers/transfer.ts';
import type { Installation } from '../../installation.ts';
import { findWaits } from '../../processes/dispatch/waiting-for.ts';
import { eachTransfer, listTransfers } from '../../projections/transfers/queries.ts';
import { given, recordAccess } from '../program/access.ts';
import { bytes, type Columns, printJson, printTable, write } from '../program/output.ts';
import { noteMore, withPage } from '../program/page.ts';
import { parseRequest } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { withInstallation } from '../program/session.ts';
import {
  ACCOUNT_OPTION,
  type Common,
  type FilterOptions,
  filtersOf,
  readModelsOf,
  withFilters,
} from './flags.ts';

interface ListOptions extends Common, FilterOptions {
  sort?: string;
  csv?: boolean;
  limit?: string;
  offset?: string;
}

const COLUMNS: Columns<TransferListItem> = {
  ID: ({ id }) => id,
  STATUS: ({ status }) => status,
  'WAITING FOR': ({ waiting_for }) => waiting_for?.reason ?? null,
  ERROR: ({ error }) => error?.code ?? null,
  CREATED: ({ created_at }) => created_at,
  SIZE: ({ size_bytes }) => (size_bytes === null ? null : bytes(size_bytes)),
  SOURCE: ({ source }) => source,
  DESTINATION: ({ destination }) => destination,
};

/** Adds the command that lists transfers. */
export function addListCommand(transfers: Command): void {
  withPage(withFilters(transfers.command('list').description('list transfers, newest first')))
    .addOption(new Option('--sort <order>').choices(SORT_ORDERS).default('-created_at'))
    .option(...ACCOUNT_OPTION)
    .addOption(new Option('--csv', 'all matches as CSV').conflicts(['json', 'limit', 'offset']))
    .option('--json', 'one JSON document, as the API answers')
    .action((options: ListOptions) =>
      withInstallation((installation) => list(installation, options), { runsLong: options.csv }),
    );
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
  await printTable(COLUMNS, data, 'No transfers match');
  if (pagination.has_more)
    noteMore(query, transfers.length, { total, isExact: found.totalIsExact });
}
