import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createPostgresLog } from '../../../src/adapters/event-store/postgres/log.ts';
import { MIGRATIONS, MigrationError, migrate } from '../../../src/adapters/postgres/migrate.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { event } from '../event-store/events.ts';

/**
 * What databases of the previous release contain: name and SHA-256 of each migration that has
 * changed since.
 */
const BEFORE = [
  ['010_log.sql', 'd48ef2d93bd13183ac167dd39960835d6dc51abab117c887525f24b3b0d39449'],
  ['011_append.sql', 'b702be845ff0523c030cbc8099db3cfae77fbf88e38a5a020fa0d2d3ab659107'],
  ['031_claims.sql', '3e1b0c61b31a3c561466917128e06cefa8e6b2e75e2f6be6b60f47993a51f49a'],
  ['080_announce.sql', '5528d49e8175356eb439487dd3ee23e9fafb3f0d37b880ce2c0b5341a4b9ca9f'],
] as const;

describeWithPostgres('SQL functions', () => {
  let database: TestDatabase;
  let folder: string;
  beforeEach(async () => {
    database = await createTestDatabase();
    // Those of the folder are all that the service has in these tests.
    await database.sql`truncate work.sql_functions`;
    folder = await mkdtemp(join(tmpdir(), 'waybill-functions-'));
  });
  afterEach(async () => {
    await database?.drop();
    await rm(folder, { recursive: true });
  });

  const file = (text: string) => writeFile(join(folder, 'work.answer.sql'), text);
  const fn = (version: number, returns: string, value: string) =>
    `-- version: ${version}\ncreate or replace function work.answer() returns ${returns} ` +
    `language sql as $$ select ${value} $$`;
  const run = () => migrate(database.sql, MIGRATIONS, folder);
  const answer = async () => (await database.sql`select work.answer() as answer`)[0]?.answer;

  it('are installed, and replaced when their version rises, also with another type', async () => {
    await file(fn(1, 'integer', '1'));
    await run();
    await run();
    expect(await answer()).toBe(1);
    await file(fn(2, 'text', `'two'`));
    await run();
    expect(await answer()).toBe('two');
  });

  it('are rejected if their text changed without a new version', async () => {
    await file(fn(1, 'integer', '1'));
    await run();
    await file(fn(1, 'integer', '2'));
    await expect(run()).rejects.toThrow(MigrationError);
    await expect(run()).rejects.toThrow(/work\.answer was changed .* Raise the version/);
    expect(await answer()).toBe(1);
  });

  it('of a newer version of the service are kept, and reject an older one', async () => {
    await file(fn(3, 'integer', '3'));
    await run();
    await file(fn(2, 'integer', '2'));
    await expect(run()).rejects.toThrow(MigrationError);
    await expect(run()).rejects.toThrow(
      'The database was migrated by a newer version of Waybill (version 3 of the SQL function ' +
        'work.answer is not known here). Start that version or a later one.',
    );
    expect(await answer()).toBe(3);
  });

  it('that only a newer version has reject an older one', async () => {
    await file(fn(1, 'integer', '1'));
    await run();
    await database.sql`
      insert into work.sql_functions (name, version, sha256) values ('work.question', 1, '')`;
    await expect(run()).rejects.toThrow(
      'The database was migrated by a newer version of Waybill (the SQL function work.question ' +
        'is not known here). Start that version or a later one.',
    );
  });

  it('are named if they fail or have no version', async () => {
    await file(fn(1, 'integer', 'no_such_column'));
    await expect(run()).rejects.toThrow(/work\.answer fails: column "no_such_column"/);
    await file('select 1');
    await expect(run()).rejects.toThrow(/work\.answer\.sql must begin with a line/);
  });

  it('replace the functions of a database that has them from migrations', async () => {
    const { sql } = database;
    await sql`drop table work.sql_functions`;
    for (const [name, sha256] of BEFORE) {
      await sql`insert into work.migrations (name, sha256) values (${name}, ${sha256})
                on conflict (name) do update set sha256 = excluded.sha256`;
    }
    await sql`drop function log.append`;
    expect(await migrate(sql)).toEqual([]);
    const store = createPostgresLog({ sql, prefix: '' });
    expect(await store.append('transfer-1', 'no_stream', [event()])).toMatchObject({
      revision: 0,
    });
    await expect(sql`delete from log.events`).rejects.toThrow('log.events is append-only');
    await store.close();
  });
});
