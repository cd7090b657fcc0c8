import { connect } from '../src/adapters/postgres/connect.ts';
import { INDEXED } from '../src/adapters/postgres/pools.ts';
import { prepareReadModels } from '../src/projections/read-models.ts';
import type { SortedPage, TransferFilter } from '../src/projections/transfers/filter.ts';
import { listTransfers } from '../src/projections/transfers/queries.ts';
import { summarizeTransfers } from '../src/projections/transfers/summary.ts';
import type { Bench } from './support/bench.ts';
import { startPostgres } from './support/postgres.ts';
import { ACCOUNT, fillReadModels } from './support/searchable.ts';
import { median } from './support/statistics.ts';
import { printTable } from './support/table.ts';

const TRANSFERS = 10_000_000;
const FIRST: SortedPage = { limit: 25, offset: 0 };
/** Each statement runs more often than Postgres takes to consider a generic plan. */
const LEAST_RUNS = 6;
/** Of how many failed transfers the home page counts the reasons. */
const FAILURES = 1_000;

/** Measures lists, searches of every frequency and counts in 10,000,000 transfers. */
export async function run(bench: Bench): Promise<void> {
  const { options, defer } = bench;
  const postgres = await startPostgres(bench);
  const url = await postgres.createDatabase('search');
  const patient = connect(url, {
    settings: { ...INDEXED, synchronous_commit: 'off', plan_cache_mode: 'force_generic_plan' },
    answerWithinMs: null,
  });
  defer(() => patient.end({ timeout: 1 }));
  await prepareReadModels(patient, 'bench');
  const transfers = Math.round(TRANSFERS * options.scale);
  const started = performance.now();
  await fillReadModels(patient, transfers, (done) => {
    if (done % 500_000 === 0) console.log(`${done} of ${transfers} transfers are there`);
  });
  console.log(`filled in ${Math.round((performance.now() - started) / 1_000)} s`);

  const sql = connect(url, { settings: INDEXED });
  defer(() => sql.end({ timeout: 1 }));
  const [oldest] = await sql<{ transfer_id: string; destination: string }[]>`
    select transfer_id, destination from read.transfers where account_id = ${ACCOUNT}
     order by created_at limit 1`;
  const [other] = await sql<{ account_id: string }[]>`
    select account_id from read.transfers where account_id <> ${ACCOUNT} limit 1`;
  if (!oldest || !other) throw new Error('too few transfers');
  const id = oldest.transfer_id;
  const searches: [string, TransferFilter, SortedPage?, string?][] = [
    ['the list without words', {}],
    ['a late page', {}, { limit: 25, offset: Math.round(transfers / 3) }],
    ['a destination of all', { destination: 's3://' }],
    ['a destination of 14 %', { destination: 's3://archive-3/' }],
    ['a destination of 4 %', { destination: 's3://archive-3/incoming/north/' }],
    ['a destination of few', { destination: oldest.destination }],
    ['a destination of none', { destination: 's3://none/' }],
    ['half of all', { q: 'report' }],
    ['all', { q: 'example.com' }],
    ['20 %', { q: 'invoice' }],
    ['1 %', { q: 'payroll' }],
    ['0.1 %', { q: 'audit' }],
    ['0.01 %', { q: 'zebra' }],
    ['none', { q: 'nothing-at-all' }],
    ['four common words', { q: 'report csv north bank' }],
    ['one letter', { q: 'q' }],
    ['one letter and a word', { q: 'q report' }],
    ['a number', { q: '471123' }],
    ['the id of the oldest', { q: id }],
    ['the end of that id', { q: id.slice(-8) }],
    ['the path of the oldest', { q: oldest.destination }],
    ['half, of a rare status', { q: 'report', status: 'cancelled' }],
    ['half, of a common status', { q: 'report', status: 'pending' }],
    [
      'half, of one day',
      { q: 'report', from: '2025-11-02T00:00:00.000Z', to: '2025-11-02T23:59:59.999Z' },
    ],
    ['half, of a destination', { q: 'report', destination: 's3://archive-3/' }],
    ['half, oldest first', { q: 'report' }, { ...FIRST, sort: 'created_at' }],
    ['half, a late page', { q: 'report' }, { limit: 25, offset: 5_000 }],
    ['half, of a small account', { q: 'report' }, FIRST, other.account_id],
  ];
  const rows: (string | number)[][] = [];
  for (const [what, filter, page = FIRST, account = ACCOUNT] of searches) {
    let total = '';
    const times = await timesOf(options.runs, async () => {
      const found = await listTransfers(sql, account, filter, page);
      total = `${found.total}${found.totalIsExact === false ? ' or more' : ''}`;
    });
    rows.push([what, filter.q ?? '', total, median(times), Math.max(...times)]);
  }
  const day = searches.flatMap(([, { from, to }]) => (from === undefined ? [] : [{ from, to }]))[0];
  for (const [what, span] of [
    ['counts of all', {}],
    ['counts of one day', day],
  ] as const) {
    let total = '';
    const times = await timesOf(options.runs, async () => {
      const { byStatus } = await summarizeTransfers(sql, ACCOUNT, span ?? {}, FAILURES);
      total = String(Object.values(byStatus).reduce((sum, count) => sum + count, 0));
    });
    rows.push([what, '', total, median(times), Math.max(...times)]);
  }
  printTable(
    `A page of ${transfers} transfers, half of them one account's`,
    ['search', 'q', 'total', 'median ms', 'worst ms'],
    rows,
  );
}

/** Returns the milliseconds of each run. The first warms up and does not count. */
async function timesOf(runs: number, run: () => Promise<void>): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i <= Math.max(LEAST_RUNS, runs); i++) {
    const from = performance.now();
    await run();
    if (i > 0) times.push(performance.now() - from);
  }
  return times;
}
