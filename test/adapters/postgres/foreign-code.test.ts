import { afterEach, beforeEach, expect, it } from 'vitest';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { foreignCode } from '../../../src/adapters/postgres/foreign-code.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const SCHEMAS = ['log', 'work', 'read'];

/** What a user with SQL rights may do to the code in the database, and what is said of it. */
const CHANGES: [string, string, string[]][] = [
  [
    'a trigger function that refuses nothing',
    `create or replace function log.refuse_change() returns trigger language plpgsql as
       $$ begin return null; end $$`,
    ['the SQL function log.refuse_change was changed or disabled'],
  ],
  [
    'a function with another search path',
    `alter function work.accepted_places(integer, timestamptz) set search_path = public`,
    ['the SQL function work.accepted_places was changed or disabled'],
  ],
  [
    'a function with the rights of its owner',
    `alter function work.claimable_routes() security definer`,
    ['the SQL function work.claimable_routes was changed or disabled'],
  ],
  [
    'a function without a statement',
    `create or replace function log.remove(streams text[], record_stream text,
       record_revision integer) returns void language plpgsql as $$ begin end $$`,
    ['the SQL function log.remove was changed or disabled'],
  ],
  [
    'no function',
    'drop function work.claimable_routes()',
    ['the SQL function work.claimable_routes is missing'],
  ],
  [
    'a function that a call may take for ours',
    `create function log.remove(streams text[]) returns void language sql as $$ select $$`,
    ['the SQL function log.remove was changed or disabled'],
  ],
  [
    'a trigger that never runs',
    `create or replace trigger append_only before update or truncate on log.events
       for each statement when (false) execute function log.refuse_change()`,
    ['the trigger append_only of log.events was changed or disabled'],
  ],
  [
    'a trigger that runs for replicas only',
    'alter table log.events enable replica trigger whole_streams',
    ['the trigger whole_streams of log.events was changed or disabled'],
  ],
  [
    'no trigger',
    'drop trigger append_only on log.removed',
    ['the trigger append_only of log.removed is missing'],
  ],
  [
    'a further trigger, with its function elsewhere',
    `create function public.forge() returns trigger language plpgsql as
       $$ begin return new; end $$;
     create trigger forge before insert on log.events for each row execute function public.forge();
     create trigger forge before insert on read.transfers
       for each row execute function public.forge()`,
    [
      `the trigger forge of log.events is none of Waybill's`,
      `the trigger forge of read.transfers is none of Waybill's`,
    ],
  ],
  [
    'a further function',
    'create function work.claim() returns void language sql as $$ select $$',
    [`the SQL function work.claim is none of Waybill's`],
  ],
  [
    'a rule',
    'create rule nothing as on insert to work.transfer_jobs do instead nothing',
    [`the rule nothing of work.transfer_jobs is none of Waybill's`],
  ],
];

describeWithPostgres('code in the database', () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await createTestDatabase();
    await database.sql.unsafe('create schema read; create table read.transfers ()');
  });
  afterEach(() => database?.drop());

  it('has no fault as it was installed, also on another search path', async () => {
    const { sql } = database;
    expect(await foreignCode(sql, SCHEMAS)).toEqual([]);
    const [row] = await sql`select current_database() as name`;
    await sql`alter database ${sql(row?.name as string)} set search_path = log, work, public`;
    const other = connect(database.url, { max: 1 });
    expect(await foreignCode(other, SCHEMAS)).toEqual([]);
    await other.end();
    expect(await sql`select from pg_namespace where nspname like 'waybill_shipped%'`).toEqual([]);
  });

  it.each(CHANGES)('shows %s', async (_, change, problems) => {
    await database.sql.unsafe(change);
    expect(await foreignCode(database.sql, SCHEMAS)).toEqual(problems);
  });
});
