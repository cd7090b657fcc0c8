import { differences, same } from '../canonical.ts';
import type { Context } from '../context.ts';
import type { Folded } from '../log/contents.ts';
import type { Fields, Kind } from '../log/event.ts';
import type { CatalogState } from '../log/fold-catalog.ts';
import { checkAudit } from './audit.ts';

const BATCH = 2_000;

/**
 * Checks that every table of the schema `read` follows from the log, and that each consumer has
 * reached its end.
 */
export async function checkTables(context: Context): Promise<void> {
  await checkTransfers(context);
  await checkSearch(context);
  await checkCounts(context);
  await checkCatalog(context);
  await checkAudit(context);
  await checkCheckpoints(context);
}

interface TransferRow extends Fields {
  transfer_id: string;
}

async function checkTransfers({ sql, log, report }: Context): Promise<void> {
  const unseen = new Set(log.transfers.keys());
  const rows = sql<TransferRow[]>`
    select transfer_id, account_id, status, created_at, destination, revision, position::text, state
      from read.transfers`;
  for await (const batch of rows.cursor(BATCH)) {
    for (const row of batch) {
      report.count('transfer_rows');
      const story = log.transfers.get(row.transfer_id);
      if (!story) {
        report.finding(
          'read.transfers',
          row.transfer_id,
          'the row is of a transfer that the log does not hold',
        );
        continue;
      }
      unseen.delete(row.transfer_id);
      const { state, revision, position } = story;
      const { transfer_id, account_id, created_at, destination } = state.facts;
      const expected = {
        transfer_id,
        account_id,
        status: state.status,
        created_at,
        destination,
        revision,
        position: String(position),
        state,
      };
      if (!same(row, expected))
        report.finding('read.transfers', row.transfer_id, differences(row, expected));
    }
  }
  for (const id of unseen) report.finding('read.transfers', id, 'it has no row');
  report.expectSome('read.transfers', 'transfer_rows', log.transfers.size);
}

interface SearchRow extends Fields {
  transfer_id: string;
  starts: string | null;
  ends: string | null;
  created_at: string;
}

/** The times of a segment must span its rows: a search skips segments by them. */
async function checkSearch({ sql, log, report }: Context): Promise<void> {
  const unseen = new Set(log.transfers.keys());
  const rows = sql<SearchRow[]>`
    select transfer_id, r.account_id, created_at, text, starts, ends,
           segment = 0 or s.account_id is not distinct from r.account_id as of_account
      from read.transfer_search r left join read.transfer_search_segments s using (segment)`;
  for await (const batch of rows.cursor(BATCH)) {
    for (const { starts, ends, ...row } of batch) {
      report.count('search_rows');
      const facts = log.transfers.get(row.transfer_id)?.state.facts;
      if (!facts || !unseen.delete(row.transfer_id)) {
        report.finding('read.transfer_search', row.transfer_id, 'the row is one too many');
        continue;
      }
      const { transfer_id, account_id, created_at } = facts;
      const expected = {
        transfer_id,
        account_id,
        created_at,
        text: searchable(facts as unknown as Searchable),
        of_account: true,
      };
      if (!same(row, expected))
        report.finding('read.transfer_search', row.transfer_id, differences(row, expected));
      if (starts !== null && ends !== null && (created_at < starts || created_at > ends))
        report.finding('read.transfer_search', row.transfer_id, 'its segment has other times');
    }
  }
  for (const id of unseen) report.finding('read.transfer_search', id, 'it has no row');
  report.expectSome('read.transfer_search', 'search_rows', log.transfers.size);
}

interface Searchable {
  transfer_id: string;
  source: string;
  destination: string;
  file_name: string;
  metadata: Record<string, string>;
}

/** The text in which a search finds a transfer: lower case, and ASCII only. */
function searchable({ transfer_id, source, destination, file_name, metadata }: Searchable): string {
  const lines = [transfer_id, source, destination];
  for (const [key, value] of Object.entries(metadata)) lines.push(key, value);
  if (!source.endsWith(file_name)) lines.push(file_name);
  let text = '';
  for (const unit of lines.join('\n').normalize('NFC').toLowerCase().split('')) {
    const ascii = unit <= '\u007f' || /\s/.test(unit);
    text += ascii
      ? unit
      : `Z${unit
          .charCodeAt(0)
          .toString(16)
          .padStart(4, '0')
          .replace(/./g, (digit) => String.fromCharCode(65 + Number.parseInt(digit, 16)))}`;
  }
  return text;
}

async function checkCounts({ sql, log, report }: Context): Promise<void> {
  const counts = new Map<string, number>();
  const totals = new Map<string, number>();
  const inBatches = new Map<string, number>();
  const add = (to: Map<string, number>, key: string) => to.set(key, (to.get(key) ?? 0) + 1);
  for (const { state } of log.transfers.values()) {
    const { account_id, created_at, batch_id } = state.facts;
    add(counts, `${account_id} ${state.status} ${created_at.slice(0, 13)}:00:00.000Z`);
    add(totals, state.status);
    if (batch_id !== undefined) add(inBatches, `${batch_id} ${state.status}`);
  }
  const byHour = await sql<{ key: string; transfers: string; hour: string }[]>`
    select account_id || ' ' || status as key, hour, transfers::text from read.transfer_counts
     where transfers <> 0`;
  const inAll = await sql<{ key: string; transfers: string }[]>`
    select status as key, transfers::text from read.transfer_totals where transfers <> 0`;
  compareCounts(
    'read.transfer_counts',
    new Map(byHour.map(({ key, hour, transfers }) => [`${key} ${hour}`, Number(transfers)])),
    counts,
  );
  compareCounts(
    'read.transfer_totals',
    new Map(inAll.map(({ key, transfers }) => [key, Number(transfers)])),
    totals,
  );
  const byBatch = await sql<{ key: string; transfers: string }[]>`
    select batch_id || ' ' || status as key, transfers::text from read.batch_counts
     where transfers <> 0`;
  compareCounts(
    'read.batch_counts',
    new Map(byBatch.map(({ key, transfers }) => [key, Number(transfers)])),
    inBatches,
  );

  function compareCounts(
    check: string,
    actual: Map<string, number>,
    expected: Map<string, number>,
  ): void {
    for (const key of new Set([...actual.keys(), ...expected.keys()])) {
      report.count('counts');
      const [is, should] = [actual.get(key) ?? 0, expected.get(key) ?? 0];
      if (is !== should) report.finding(check, key, `it counts ${is}, and the log has ${should}`);
    }
  }
}

/** The columns of each table besides key, revision, position and state. */
const COLUMNS: Record<
  'batches' | 'endpoints' | 'keys' | 'webhooks',
  (state: CatalogState) => Fields
> = {
  batches: ({ account_id, status, created_at, ended_at }) => ({
    account_id,
    status,
    created_at,
    ended: ended_at !== null,
  }),
  endpoints(state) {
    const there = state.status === 'configured';
    const { name, paused, max_connections } = state;
    return {
      name,
      removed: !there,
      paused: there ? paused : false,
      max_connections: there ? max_connections : null,
    };
  },
  keys: ({ sha256, account_id, name, scopes, expires_at, revoked_at }) => ({
    sha256,
    account_id,
    name,
    scopes,
    expires_at,
    revoked_at,
  }),
  webhooks: ({ account_id, status }) => ({ account_id, removed: status === 'removed' }),
};

async function checkCatalog({ sql, log, report }: Context): Promise<void> {
  const endpoints = await sql<Fields[]>`
    select endpoint_id as id, name, removed, paused, max_connections, revision, position::text,
           state from read.endpoints`;
  const keys = await sql<Fields[]>`
    select key_id as id, sha256, account_id, name, to_jsonb(scopes) as scopes, expires_at,
           revoked_at, revision, position::text, state
      from read.keys`;
  const webhooks = await sql<Fields[]>`
    select webhook_id as id, account_id, removed, revision, position::text, state
      from read.webhooks`;
  const batches = await sql<Fields[]>`
    select batch_id as id, account_id, status, created_at, ended, revision, position::text, state
      from read.batches`;
  for (const [name, rows] of Object.entries({ batches, endpoints, keys, webhooks }) as [
    keyof typeof COLUMNS,
    Fields[],
  ][]) {
    compareRows(name, rows, log[name]);
  }
  report.expectSome(
    'read.catalog',
    'catalog_rows',
    log.endpoints.size + log.keys.size + log.webhooks.size,
  );

  function compareRows(
    table: keyof typeof COLUMNS,
    rows: Fields[],
    entries: Map<string, Folded<CatalogState>>,
  ): void {
    const found = new Map(rows.map((row) => [String(row.id), row]));
    for (const id of new Set([...found.keys(), ...entries.keys()])) {
      report.count('catalog_rows');
      const entry = entries.get(id);
      const row = found.get(id);
      if (!entry) report.finding(`read.${table}`, id, 'the log does not hold it');
      else if (!row) report.finding(`read.${table}`, id, 'it has no row');
      else {
        const { state, revision, position } = entry;
        const expected = {
          id,
          ...COLUMNS[table](state),
          revision,
          position: String(position),
          state,
        };
        if (!same(row, expected)) report.finding(`read.${table}`, id, differences(row, expected));
      }
    }
  }
}

/** The streams that each consumer of the log follows. */
const FOLLOWS: Record<string, readonly Kind[]> = {
  transfers: ['transfer'],
  batches: ['batch'],
  transfer_search: ['transfer'],
  // Without accesses: each check causes some, and nothing waits until the tables have them.
  audit: ['transfer', 'batch', 'endpoint', 'key', 'webhook', 'log'],
  proof: ['transfer', 'batch', 'endpoint', 'key', 'webhook', 'log'],
  catalog: ['endpoint', 'key', 'webhook'],
  dispatch: ['transfer'],
  outbox: ['transfer', 'batch', 'endpoint', 'key', 'webhook'],
};

async function checkCheckpoints({ sql, log, report }: Context): Promise<void> {
  const rows = await sql<{ name: string; position: string }[]>`
    select name, position::text from read.checkpoints
    union all
    select name, position::text from work.checkpoints`;
  const positions = new Map(rows.map(({ name, position }) => [name, BigInt(position)]));
  for (const [name, kinds] of Object.entries(FOLLOWS)) {
    report.count('checkpoints');
    const end = kinds
      .map((kind) => log.heads.get(kind) ?? 0n)
      .reduce((a, b) => (a > b ? a : b), 0n);
    const position = positions.get(name);
    if (position === undefined) report.finding('read.checkpoints', name, 'there is no checkpoint');
    else if (position < end)
      report.finding(
        'read.checkpoints',
        name,
        `it is at ${position}, and its events go up to ${end}`,
      );
  }
}
