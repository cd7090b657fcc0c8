import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { closePools, createPools } from '../../../src/adapters/postgres/pools.ts';
import { isDiskFull, isPostgresUnavailable } from '../../../src/adapters/postgres/unavailable.ts';
import { freePort } from '../../support/network/free-port.ts';
import { whileTableLocked } from '../../support/postgres/row-locks.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

describeWithPostgres('connect', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  it('returns bigints', async () => {
    const { sql } = database;
    const [row] = await sql`
        select ${9_007_199_254_740_993n}::bigint as one,
               ${sql.array([1n, 2n ** 62n], 1016)}::bigint[] as many`;
    expect(row).toEqual({ one: 9_007_199_254_740_993n, many: [1n, 2n ** 62n] });
  });

  it('returns timestamps as ISO 8601 in UTC, and accepts strings and dates', async () => {
    const at = '2026-01-31T09:30:00.120Z';
    const [row] = await database.sql`
      select ${at}::timestamptz as "fromString", ${new Date(at)}::timestamptz as "fromDate",
             '2026-01-31 11:30:00.120987+02'::timestamptz as "fromZone",
             array[${at}::timestamptz] as list`;
    expect(row).toEqual({ fromString: at, fromDate: at, fromZone: at, list: [at] });
  });

  it('accepts and returns arrays with any content', async () => {
    const { sql } = database;
    const texts = ['a', 'b c', 'q"q', 'b\\s', null, '', 'NULL', '{x,y}', 'new\nline', "it's"];
    const [row] = await sql`
      select ${texts}::text[] as texts, ${[1, null, -3]}::integer[] as integers,
             ${[]}::text[] as none,
             ${['9007199254740993']}::bigint[] as bigints, 'x' = any(${['x']}) as found`;
    expect(row).toEqual({
      texts,
      integers: [1, null, -3],
      none: [],
      bigints: [9_007_199_254_740_993n],
      found: true,
    });
  });

  it('encodes JSON once', async () => {
    const { sql } = database;
    const value = { name: 'a "quoted" name', list: [1, null], nested: { ü: true } };
    const text = JSON.stringify(value);
    const [row] = await sql`
      select jsonb_typeof(${sql.json(value)}::jsonb) as type, ${sql.json(value)}::jsonb as value,
             ${text}::text::jsonb as "fromText",
             jsonb_typeof(${sql.json('word')}::jsonb) as "stringType"`;
    expect(row).toEqual({ type: 'object', value, fromText: value, stringType: 'string' });
  });

  it('counts a server that takes no writes as unavailable', async () => {
    const settings = { default_transaction_read_only: 'on' };
    const sql = connect(database.url, { max: 1, settings });
    const error = await sql`create table anything ()`.catch((error: unknown) => error);
    await sql.end();
    expect(error).toMatchObject({ code: '25006' });
    expect(isPostgresUnavailable(error)).toBe(true);
  });

  it('counts a file that must not become longer as a full disk', async ({ skip }) => {
    const sql = connect(database.url, { max: 1 });
    const [row] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
    try {
      // As with a quota, Postgres has no code for the error that follows.
      execFileSync('prlimit', ['--pid', String(row.pid), '--fsize=16777216'], { stdio: 'ignore' });
    } catch {
      await sql.end();
      skip('prlimit may not limit a session of this Postgres');
    }
    const error = await sql`
      create table grown as select md5(i::text) || md5(i::text) as text
        from generate_series(1, 300000) as i`.catch((error: unknown) => error);
    await sql.end();
    expect(error).toMatchObject({ code: 'XX000' });
    expect([isDiskFull(error), isPostgresUnavailable(error)]).toEqual([true, true]);
  });

  it('uses the connection that was used last', async () => {
    const sql = connect(database.url, { max: 3 });
    const pidOf = async () => (await sql`select pg_backend_pid() as pid`)[0]?.pid as number;
    await Promise.all([1, 2, 3].map(() => sql`select pg_sleep(0.1)`));
    const last = await pidOf();
    const pids = [await pidOf(), await pidOf(), await pidOf()];
    await sql.end();
    expect(pids).toEqual([last, last, last]);
  });

  it('opens few connections for many short queries', async () => {
    const sql = connect(database.url, { max: 20 });
    const queries = Array.from({ length: 20 }, () => sql`select pg_backend_pid() as pid`);
    const rows = (await Promise.all(queries)).flat();
    await sql.end();
    expect(rows).toHaveLength(20);
    expect(new Set(rows.map(({ pid }) => pid)).size).toBeLessThan(10);
  });

  it('opens all connections for transactions that wait for each other', async () => {
    const sql = connect(database.url, { max: 8 });
    const allBegun = Promise.withResolvers<void>();
    let begun = 0;
    const transactions = Array.from({ length: 8 }, () =>
      sql.begin(async (tx) => {
        await tx`select`;
        if (++begun === 8) allBegun.resolve();
        await allBegun.promise;
      }),
    );
    await Promise.all(transactions);
    await sql.end();
    expect(begun).toBe(8);
  });

  it('answers the queries that wait for a connection when it ends', async () => {
    const sql = connect(database.url, { max: 20 });
    const queries = Array.from({ length: 20 }, (_, i) => sql`select ${i}::integer as i`.execute());
    await sql.end();
    expect((await Promise.all(queries)).flat().map(({ i }) => i)).toEqual([...queries.keys()]);
  });

  it('rejects all queries that wait while no server listens', async () => {
    const url = new URL(database.url);
    url.port = String(await freePort());
    const sql = connect(url.href, { max: 4 });
    const queries = await Promise.allSettled(Array.from({ length: 20 }, () => sql`select`));
    await sql.end();
    expect(queries.map(({ status }) => status)).toEqual(Array(20).fill('rejected'));
  });

  it.each(['hex', 'escape'])('reads bytes if the database writes them as %s', async (form) => {
    const { sql, url } = database;
    await sql.unsafe(
      `alter database "${new URL(url).pathname.slice(1)}" set bytea_output = ${form}`,
    );
    const other = connect(url, { max: 1 });
    const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const texts = ['', '\\x00', '\\377', '\\\\'].map((text) => Buffer.from(text));
    for (const bytes of [all, ...texts]) {
      const [row] = await other`select ${bytes}::bytea as bytes`;
      expect(row?.bytes).toEqual(bytes);
    }
    await other.end();
  });

  it.each([
    ['array_nulls', 'off'],
    ['default_transaction_isolation', 'serializable'],
    ['extra_float_digits', '-15'],
  ])('reads and writes as ever if the database has %s = %s', async (name, value) => {
    const { sql, url } = database;
    const changed = sql(new URL(url).pathname.slice(1));
    await sql`alter database ${changed} set ${sql(name)} = ${sql(value)}`;
    const other = connect(url, { max: 1 });
    const [row] = await other`
      select array_position(${['a', null]}::text[], null) as null_at, 123456::float8 as count,
             current_setting('transaction_isolation') as isolation`;
    await other.end();
    await sql`alter database ${changed} reset ${sql(name)}`;
    expect(row).toEqual({ null_at: 2, count: 123_456, isolation: 'read committed' });
  });

  it('lets rebuilds take longer than the statement_timeout of the database', async () => {
    const { sql, url } = database;
    const changed = sql(new URL(url).pathname.slice(1));
    await sql`alter database ${changed} set statement_timeout = 10`;
    const pools = createPools(url);
    const outcomes = [pools.sql, pools.derived, pools.patient].map((pool) =>
      pool`select pg_sleep(0.1)`.then(
        () => 'ended',
        ({ code }) => code,
      ),
    );
    expect(await Promise.all(outcomes)).toEqual(['57014', '57014', 'ended']);
    await closePools(pools);
    await sql`alter database ${changed} reset statement_timeout`;
  });

  it('ends a wait for a lock before its connection counts as lost', async () => {
    const other = connect(database.url, { max: 1, answerWithinMs: 6_000 });
    const pidOf = async () => (await other`select pg_backend_pid() as pid`)[0]?.pid;
    const before = await pidOf();
    const waiting = () => other`select from log.events`.catch(({ code }) => code);
    expect(await whileTableLocked(database.sql, 'log.events', waiting)).toBe('55P03');
    expect(await pidOf()).toBe(before);
    await other.end();
  });

  it('sets its application name', async () => {
    const [row] = await database.sql`
        select current_setting('application_name') as name, current_setting('TimeZone') as zone`;
    expect(row).toEqual({ name: 'waybill', zone: 'UTC' });
  });
});
