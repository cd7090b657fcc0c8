import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { unlessSilent } from '../../../src/cli/program/silent-postgres.ts';
import { createProxiedDatabase, type ProxiedDatabase } from '../../support/postgres/proxied.ts';
import { holdRows } from '../../support/postgres/row-locks.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import { CLI_TIMEOUT_MS, createCli, settingsFor } from '../../support/service/cli.ts';
import { until } from '../../support/service/transfers.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

describeWithPostgres('a command whose Postgres', () => {
  let database: ProxiedDatabase;
  let busy: TestDatabase;
  beforeAll(async () => {
    [database, busy] = await Promise.all([createProxiedDatabase(), createTestDatabase()]);
  });
  afterAll(() => Promise.all([database?.drop(), busy?.drop()]));

  test.concurrent('falls silent ends, and says what does not answer', async () => {
    const cli = createCli(settingsFor(database.url));
    expect(await cli.run(['migrate'])).toMatchObject({ code: 0 });
    const { sql, proxy } = database;
    const lock = await holdRows(sql, (tx) => tx`lock table read.transfers`);
    const listing = cli.run(['transfers', 'list']);
    await until('it waits', async () => (await lock.waiting('read.transfers')) > 0);
    proxy.stall(true);
    const { code, stderr } = await listing;
    proxy.stall(false);
    await lock.release();
    expect(stderr).toContain(
      'Postgres has not answered for 15 s. Check that it runs, DATABASE_URL',
    );
    expect(stderr).toContain('it is unknown whether the change took effect');
    expect(code).toBe(5);
  });

  test.concurrent('is busy with one statement for long goes on', { ...LONG }, async () => {
    const listed = unlessSilent(9_000, async (watch) => {
      watch(busy.url);
      const [row] = await busy.sql`select pg_sleep(12), 'done' as answer`;
      return row?.answer;
    });
    expect(await listed).toBe('done');
  });
});
