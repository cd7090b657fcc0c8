import { expect, test } from 'vitest';
import { connect } from '../src/adapters/postgres/connect.ts';
import { createHealth } from '../src/health.ts';
import { toProblem } from '../src/http/problems.ts';
import { describeWithPostgres } from './support/postgres/test-database.ts';
import { configureEndpoint, openTestInstallation, submit } from './support/service/installation.ts';

const ENDPOINT = {
  name: 'c',
  protocol: 'sftp',
  host: 'c.example.com',
  username: 'me',
  password: 'x',
};

describeWithPostgres('readiness', () => {
  test('is checked once for all that ask at the same time', async () => {
    const installation = await openTestInstallation();
    let asked = 0;
    const store = {
      ...installation.store,
      head() {
        asked++;
        return installation.store.head();
      },
    };
    const health = createHealth({ ...installation, store });
    try {
      const answers = await Promise.all(Array.from({ length: 50 }, health.ready));
      expect(answers.map(({ ready }) => ready)).toEqual(Array(50).fill(true));
      expect(asked).toBe(1);
      await health.ready();
      expect(asked).toBe(2);
    } finally {
      await installation.close();
    }
  });

  test('is red while Postgres takes no writes', async () => {
    const installation = await openTestInstallation();
    const { sql } = installation;
    const pool = connect(installation.environment.DATABASE_URL as string, { max: 1 });
    const health = createHealth({ ...installation, sql: pool });
    const databaseCheck = async () => (await health.ready()).checks.database;
    try {
      const [{ name }] = await sql<[{ name: string }]>`select current_database() as name`;
      await sql`alter database ${sql(name)} set default_transaction_read_only = on`;
      expect(await databaseCheck()).toEqual({
        ok: false,
        detail: 'is read-only; nothing can be written',
      });
      await sql`alter database ${sql(name)} reset default_transaction_read_only`;
      expect(await databaseCheck()).toEqual({ ok: true, detail: 'answers' });
    } finally {
      await pool.end({ timeout: 1 });
      await installation.close();
    }
  });

  test('names a full disk at once, until an append succeeds', async () => {
    const installation = await openTestInstallation();
    const { sql } = installation;
    const health = createHealth(installation);
    const logCheck = async () => (await health.ready()).checks.event_store;
    const create = () => submit(installation, 'sftp://a/b', 'sftp://c/d');
    try {
      await configureEndpoint(installation, ENDPOINT);
      // As Postgres answers when its disk is full.
      await sql.unsafe(`
        create function full_disk() returns trigger language plpgsql as
          $$ begin raise 'could not extend file' using errcode = '53100'; end $$`);
      await sql`
        create trigger full_disk before insert on log.events execute function full_disk()`;
      const error = await create().catch((thrown: unknown) => thrown);
      expect(toProblem(error, 'req_1')).toMatchObject({
        status: 503,
        code: 'unavailable',
        detail: expect.stringContaining('The disk of the service is full'),
      });
      expect(await logCheck()).toEqual({
        ok: false,
        detail: 'has no room on its disk; nothing can be appended',
      });
      await sql`drop trigger full_disk on log.events`;
      await create();
      expect(await logCheck()).toEqual({ ok: true, detail: 'answers' });
    } finally {
      await installation.close();
    }
  });
});
