import { randomUUID } from 'node:crypto';
import { describe, inject } from 'vitest';
import { connect, type Sql } from '../../../src/adapters/postgres/connect.ts';
import type { TemplateName } from '../run/global-setup.ts';

export interface TestDatabase {
  url: string;
  sql: Sql;
  /** Closes `sql` and drops the database, even with open connections. */
  drop(): Promise<void>;
}

/** Creates an empty database for a test file. Throws if that fails. */
export async function createTestDatabase(
  template: TemplateName = 'migrated',
): Promise<TestDatabase> {
  const server = inject('postgres');
  if (server.state !== 'ready') throw new Error(server.reason);
  const name = `waybill_test_${randomUUID().slice(0, 8)}`;
  const admin = administrator(server.url);
  await admin`
    create database ${admin(name)} template ${admin(server.templates[template])}
    strategy file_copy`;

  const url = new URL(server.url);
  url.pathname = name;
  const sql = connect(url.href);
  return {
    url: url.href,
    sql,
    async drop() {
      await sql.end({ timeout: 1 });
      await admin`drop database ${admin(name)} with (force)`;
    },
  };
}

/**
 * `describe` for tests that need Postgres. Skips them, with the reason in their name, if no server
 * can run.
 */
export function describeWithPostgres(name: string, tests: () => void): void {
  const server = inject('postgres');
  if (server.state === 'absent')
    describe.skip(`${name} (skipped, no Postgres: ${server.reason})`, tests);
  else describe(name, tests);
}

let opened: Sql | null = null;

/** The test files of a worker share its connection: opening one takes 15 ms of CPU time. */
function administrator(url: string): Sql {
  opened ??= connect(url, { max: 1 });
  return opened;
}
