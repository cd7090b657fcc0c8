import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { MigrationError } from '../../../src/adapters/postgres/migrate.ts';
import { EXIT } from '../../../src/cli/program/exit-codes.ts';
import { failureOf } from '../../../src/cli/program/failure.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli, settingsFor } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS, hookTimeout: CLI_TIMEOUT_MS });

const failed = (fields: object) => Object.assign(new Error('it says why'), fields);

describe('the failure of a command', () => {
  it.each([
    [{ code: 'ECONNREFUSED', syscall: 'connect' }, /^Postgres is unavailable: .*DATABASE_URL\.$/],
    [{ code: 'ENOENT', syscall: 'connect', address: '/s' }, /^Postgres is unavailable: /],
    [{ code: '28P01' }, /^Postgres is unavailable: /],
    [{ code: '3D000' }, /^Postgres is unavailable: /],
    [{ code: '57P03' }, /^Postgres is unavailable: /],
    [{ code: '25P03' }, /^Postgres is unavailable: /],
    [{ code: '53300' }, /raise its max_connections\.$/],
    [{ code: '25006' }, /^Postgres takes no writes: it says why\. /],
    [{ code: '40P01' }, /^Postgres could not carry this out: .* again in a moment\.$/],
    [{ code: '55P03' }, /^Postgres could not carry this out: /],
    [
      { code: '57014' },
      /^Postgres could not carry this out: .* raise statement_timeout of the role/,
    ],
  ])('of Postgres: %j', (fields, message) => {
    expect(failureOf(failed(fields))).toEqual({
      exitCode: EXIT.unavailable,
      message: expect.stringMatching(message),
    });
  });

  it('of a migration is that of Postgres, if Postgres went away', () => {
    const failure = (code: string) =>
      failureOf(new MigrationError('The migration fails', { cause: failed({ code }) }));
    expect(failure('25006')).toMatchObject({ exitCode: EXIT.unavailable });
    expect(failure('42601')).toMatchObject({ exitCode: EXIT.failed });
  });

  it.each([
    [{ code: 'ENOENT', syscall: 'open', path: '/a' }, EXIT.invalid, /^\/a does not exist$/],
    [{ code: 'ENOENT', syscall: 'uv_cwd' }, EXIT.failed, /^it says why$/],
    [
      { code: 'EROFS', syscall: 'open', path: '/a' },
      EXIT.invalid,
      /^\/a cannot .* read-only\. Mount/,
    ],
    [{ code: 'EISDIR', syscall: 'read' }, EXIT.invalid, /^A file .* is a folder, not a file$/],
    [{ code: '42601' }, EXIT.failed, /^This is an error in Waybill/],
  ])('of something else: %j', (fields, exitCode, message) => {
    expect(failureOf(failed(fields))).toEqual({
      exitCode,
      message: expect.stringMatching(message),
    });
  });
});

describeWithPostgres('a Postgres that takes no writes', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
    const { sql } = database;
    const [row] = await sql<{ name: string }[]>`select current_database() as name`;
    await sql`alter database ${sql(row?.name ?? '')} set default_transaction_read_only = on`;
  });
  afterAll(() => database?.drop());

  it('is called that', async () => {
    const ran = await createCli(settingsFor(database.url)).run(['keys', 'list']);
    expect(ran).toMatchObject({
      code: 5,
      stderr: expect.stringMatching(/^waybill: Postgres takes no writes: cannot execute /),
    });
  });
});

describeWithPostgres('a Postgres whose user may create nothing', () => {
  const role = `waybill_test_${randomUUID().slice(0, 8)}`;
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
    await database.sql.unsafe(`create role ${role} login password 'p'`);
  });
  afterAll(async () => {
    await database?.sql.unsafe(`drop role ${role}`);
    await database?.drop();
  });

  it('ends a command with the name of the missing right', async () => {
    const url = new URL(database.url);
    Object.assign(url, { username: role, password: 'p' });
    const ran = await createCli(settingsFor(url.href)).run(['migrate']);
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^waybill: Postgres rejects this: permission denied for database .* the right CREATE/,
      ),
    });
  });
});
