import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql, Transaction } from './connect.ts';

export const MIGRATIONS = join(import.meta.dirname, 'migrations');

/** Any number will do, as long as every version of the service takes the same. */
const LOCK = 7_265_519_402_113n;

/** A migration fails, or the database's migrations are not those of this version; the message says which and what to do. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError';
}

interface Migration {
  name: string;
  text: string;
  sha256: string;
}

/**
 * Applies what is not applied yet, in the order of the file names, and gives their names. Each file is a
 * transaction of its own, under a lock, so that any number of processes may call this at once. Throws
 * MigrationError when an applied file has changed or is not known here, or when one fails.
 */
export async function migrate(sql: Sql, folder: string = MIGRATIONS): Promise<string[]> {
  const migrations = await readMigrations(folder);
  const applied: string[] = [];
  for (;;) {
    const name = await sql.begin((tx) => applyNext(tx, migrations));
    if (name === null) return applied;
    applied.push(name);
  }
}

async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(folder, name), 'utf8');
      return { name, text, sha256: createHash('sha256').update(text).digest('hex') };
    }),
  );
}

async function applyNext(tx: Transaction, migrations: Migration[]): Promise<string | null> {
  await tx`select pg_advisory_xact_lock(${LOCK})`;
  await tx`create schema if not exists work`;
  await tx`create table if not exists work.migrations (
    name text collate "C" primary key,
    sha256 text not null,
    applied_at timestamptz not null default now()
  )`;
  const applied = await tx<{ name: string; sha256: string }[]>`select name, sha256 from work.migrations order by name`;
  const known = new Map(migrations.map((migration) => [migration.name, migration.sha256]));
  for (const { name, sha256 } of applied) {
    const expected = known.get(name);
    if (expected === undefined) {
      throw new MigrationError(
        `The database was migrated by a newer version of Waybill (${name} is not known here). Start that version or a later one.`,
      );
    }
    if (expected !== sha256) {
      throw new MigrationError(
        `The migration ${name} was changed after it had been applied to this database. Restore the file and put the change into a new migration.`,
      );
    }
  }
  const done = new Set(applied.map(({ name }) => name));
  const next = migrations.find(({ name }) => !done.has(name));
  if (next === undefined) return null;
  try {
    await tx.unsafe(next.text);
  } catch (error) {
    throw new MigrationError(`The migration ${next.name} fails: ${(error as Error).message}`, { cause: error });
  }
  await tx`insert into work.migrations (name, sha256) values (${next.name}, ${next.sha256})`;
  return next.name;
}
