import { createHash, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import {
  MigrationError,
  migrate,
  requireRestored,
} from '../../../src/adapters/postgres/migrate.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const TEMPLATE = '000_template.sql';

describeWithPostgres('migrate', () => {
  let database: TestDatabase;
  let folder: string;
  beforeEach(async () => {
    database = await createTestDatabase();
    folder = await mkdtemp(join(tmpdir(), 'waybill-migrations-'));
    // The template is migrated already. These tests use their own migrations after that.
    await file(TEMPLATE, '');
    await database.sql`truncate work.migrations`;
    const sha256 = createHash('sha256').update('').digest('hex');
    await database.sql`insert into work.migrations (name, sha256) values (${TEMPLATE}, ${sha256})`;
  });
  afterEach(async () => {
    await database?.drop();
    await rm(folder, { recursive: true });
  });

  const file = (name: string, text: string) => writeFile(join(folder, name), text);
  const run = () => migrate(database.sql, folder);
  const applied = async () =>
    (await database.sql`select name from work.migrations order by name offset 1`).map(
      ({ name }) => name,
    );

  it('applies new files once, in order', async () => {
    await file('002_rows.sql', 'insert into things values (1); insert into things values (2);');
    await file('001_things.sql', 'create table things (id integer)');
    await file('README.md', 'not a migration');
    expect(await run()).toEqual(['001_things.sql', '002_rows.sql']);
    expect(await run()).toEqual([]);
    await file('010_more.sql', 'insert into things values (3)');
    expect(await run()).toEqual(['010_more.sql']);
    expect(await database.sql`select id from things order by id`).toEqual([
      { id: 1 },
      { id: 2 },
      { id: 3 },
    ]);
  });

  it('rolls back a whole file that fails, names it, and continues there next time', async () => {
    await file('001_things.sql', 'create table things (id integer primary key)');
    await file('002_broken.sql', 'insert into things values (1); insert into things values (1);');
    await expect(run()).rejects.toThrow(/002_broken\.sql fails: duplicate key/);
    expect(await applied()).toEqual(['001_things.sql']);
    expect(await database.sql`select id from things`).toEqual([]);
    await file('002_broken.sql', 'insert into things values (1)');
    expect(await run()).toEqual(['002_broken.sql']);
  });

  it('rejects a file that was changed after it was applied', async () => {
    await file('001_things.sql', 'create table things (id integer)');
    await run();
    await file('001_things.sql', 'create table things (id bigint)');
    await expect(run()).rejects.toThrow(MigrationError);
    await expect(run()).rejects.toThrow(/001_things\.sql was changed .* Start the version of /);
  });

  it('rejects a database of a newer version', async () => {
    await file('001_things.sql', 'create table things (id integer)');
    await file('002_newer.sql', 'select 1');
    await run();
    await rm(join(folder, '002_newer.sql'));
    await expect(run()).rejects.toThrow(/newer version of Waybill \(002_newer\.sql/);
  });

  it.each([
    ['the first functions', ['create schema log', 'create function log.f() returns int return 1']],
    ['the first tables', ['create schema log', 'create table log.events (id int)']],
  ])('rejects a database whose restore ended after %s', async (_, statements) => {
    await database.sql`drop schema log, work cascade`;
    for (const statement of statements) await database.sql.unsafe(statement);
    await expect(migrate(database.sql)).rejects.toThrow(
      /log\..* the restore has not come to its end/,
    );
    const [row] = await database.sql`select to_regclass('work.migrations') as table`;
    expect(row).toEqual({ table: null });
  });

  it('rejects a database whose restore did not come to the triggers', async () => {
    await requireRestored(database.sql);
    await database.sql`drop trigger append_only on log.events`;
    await expect(requireRestored(database.sql)).rejects.toThrow(/log\.events lacks a trigger/);
  });

  it('rejects a database whose log has lost its head', async () => {
    await database.sql`delete from log.head`;
    await expect(requireRestored(database.sql)).rejects.toThrow(/log\.head has no row/);
  });

  it('rejects a new database that is not encoded in UTF-8', async () => {
    const name = `waybill_test_${randomUUID().slice(0, 8)}`;
    await database.sql.unsafe(
      `create database ${name} encoding 'LATIN1' locale 'C' template template0`,
    );
    const url = new URL(database.url);
    url.pathname = name;
    const sql = connect(url.href, { max: 1 });
    try {
      await expect(migrate(sql)).rejects.toThrow(/has the encoding LATIN1, .* encoding 'UTF8'/);
      const [row] = await sql`select to_regclass('work.migrations') as table`;
      expect(row).toEqual({ table: null });
    } finally {
      await sql.end();
      await database.sql.unsafe(`drop database ${name} with (force)`);
    }
  });

  it('applies each file once when several processes start together', async () => {
    await file('001_things.sql', 'create table things (id integer)');
    await file('002_row.sql', 'insert into things values (1)');
    const pools = Array.from({ length: 5 }, () => connect(database.url, { max: 1 }));
    try {
      const results = await Promise.all(pools.map((sql) => migrate(sql, folder)));
      expect(results.flat().sort()).toEqual(['001_things.sql', '002_row.sql']);
      expect(await database.sql`select id from things`).toEqual([{ id: 1 }]);
    } finally {
      await Promise.all(pools.map((sql) => sql.end()));
    }
  });
});

describeWithPostgres('the migrations of the service', () => {
  it('are applied in every test database', async () => {
    const database = await createTestDatabase();
    try {
      expect(await migrate(database.sql)).toEqual([]);
      const schemas = await database.sql`
          select nspname as name from pg_namespace where nspname in ('log', 'read', 'work')
           order by 1`;
      expect(schemas.map(({ name }) => name)).toEqual(['log', 'work']);
    } finally {
      await database.drop();
    }
  });
});
