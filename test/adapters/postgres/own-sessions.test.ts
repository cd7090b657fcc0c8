import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connect, type Sql } from '../../../src/adapters/postgres/connect.ts';
import { requireOwnSessions } from '../../../src/adapters/postgres/own-sessions.ts';
import {
  type PgBouncer,
  startPgBouncer,
  whyNoPgBouncer,
} from '../../support/postgres/pgbouncer.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

/** The settings of `connect` that PgBouncer does not know. */
const UNKNOWN = [
  'array_nulls',
  'default_transaction_isolation',
  'extra_float_digits',
  'idle_in_transaction_session_timeout',
  'lock_timeout',
].join(',');

const why = await whyNoPgBouncer();

describeWithPostgres('sessions of their own', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  const open: Sql[] = [];
  let pooler: PgBouncer | null = null;
  afterEach(async () => {
    await Promise.all(open.splice(0).map((sql) => sql.end({ timeout: 1 })));
    await pooler?.stop();
    pooler = null;
  });

  function poolsOf(url: string): Sql[] {
    const pools = Array.from({ length: 3 }, () => connect(url));
    open.push(...pools);
    return pools;
  }

  it('are what Postgres gives to each connection', async () => {
    await requireOwnSessions(poolsOf(database.url));
  });

  describe.skipIf(why)(`behind PgBouncer${why ? ` (skipped: ${why})` : ''}`, () => {
    it('exist in session mode', async () => {
      pooler = await startPgBouncer(database.url, { mode: 'session', ignored: UNKNOWN });
      await requireOwnSessions(poolsOf(pooler.url));
    });

    it('do not exist in transaction mode', async () => {
      pooler = await startPgBouncer(database.url, { mode: 'transaction', ignored: UNKNOWN });
      await expect(requireOwnSessions(poolsOf(pooler.url))).rejects.toThrow(
        /lends one session .* Let DATABASE_URL name Postgres itself/,
      );
    });

    it('cannot have the settings of Waybill unless it ignores them', async () => {
      pooler = await startPgBouncer(database.url, { mode: 'session', ignored: '' });
      await expect(requireOwnSessions(poolsOf(pooler.url))).rejects.toThrow(
        /rejects a setting .* Let DATABASE_URL name Postgres itself/,
      );
    });
  });
});
