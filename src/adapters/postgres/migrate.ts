import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql, Transaction } from './connect.ts';
import { MigrationError } from './migration-error.ts';
import { FUNCTIONS, installFunctions } from './sql-functions.ts';

export { MigrationError } from './migration-error.ts';

export const MIGRATIONS = join(import.meta.dirname, 'migrations');

/** Every version of the service must use the same number. */
const LOCK = 7_265_519_402_113n;

/**
 * SHA-256 of migrations as released before functions moved to files of their own. A database that
 * applied them has the same tables. Three of these files held functions only and are gone.
 */
const FORMER_TEXTS: ReadonlyMap<string, string> = new Map([
  ['010_log.sql', 'd48ef2d93bd13183ac167dd39960835d6dc51abab117c887525f24b3b0d39449'],
  ['011_append.sql', 'b702be845ff0523c030cbc8099db3cfae77fbf88e38a5a020fa0d2d3ab659107'],
  ['031_claims.sql', '3e1b0c61b31a3c561466917128e06cefa8e6b2e75e2f6be6b60f47993a51f49a'],
  ['080_announce.sql', '5528d49e8175356eb439487dd3ee23e9fafb3f0d37b880ce2c0b5341a4b9ca9f'],
]);

interface Migration {
  name: string;
  text: string;
  sha256: string;
}

/**
 * Applies new migrations in the order of their file names, then installs the SQL functions. Returns
 * the names of the applied migrations. Each file is a separate transaction, under a lock, so any
 * number of processes may call this at once. Throws MigrationError if an applied file has changed,
 * if a newer version of the service has migrated the database, if a file fails, if a restore was
 * interrupted, or if a new database is not encoded in UTF-8.
 */
export async function migrate(
  sql: Sql,
  folder: string = MIGRATIONS,
  functions: string = FUNCTIONS,
): Promise<string[]> {
  const migrations = await readMigrations(folder);
  const applied: string[] = [];
  for (;;) {
    const name = await sql.begin((tx) => applyNext(tx, migrations));
    if (name === null) break;
    applied.push(name);
  }
  await installFunctions(sql, functions, lock);
  return applied;
}

/** Returns false for a database without tables of Waybill. */
export async function isMigrated(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select to_regclass('work.migrations') is not null as found`;
  return row?.found === true;
}

/**
 * Returns the first table of the log that lacks a trigger which protects it, or has it disabled.
 * Null if there is none.
 */
async function unprotectedTable(sql: Sql): Promise<string | null> {
  const [lacking] = await sql<{ table: string }[]>`
    select wanted.table
      from (values ('log.events', 'append_only'), ('log.events', 'whole_streams'),
                   ('log.removed', 'append_only')) as wanted ("table", name)
     where not exists (
       select from pg_trigger
        where tgrelid = to_regclass(wanted.table) and tgname = wanted.name
          and tgenabled in ('O', 'A'))`;
  return lacking?.table ?? null;
}

/**
 * Throws MigrationError for a log without its head row, or without the triggers that protect it,
 * which a restore creates last. Nothing then keeps the log from being changed, and indexes that keep
 * a row from being written twice may be missing too. Without its head, it has no end to append to.
 */
export async function requireRestored(sql: Sql): Promise<void> {
  const table = await unprotectedTable(sql);
  if (table !== null)
    throw notRestored(`The table ${table} lacks a trigger that protects it, or has it disabled`);
  const [head] = await sql`select from log.head`;
  if (head === undefined)
    throw notRestored('The table log.head has no row, which says where the log ends');
}

function notRestored(problem: string): MigrationError {
  return new MigrationError(
    `${problem}. If this database was restored, the restore did not come to its end: restore the ` +
      'back-up into an empty database, and look for errors. If not, the log may have been changed: ' +
      'keep the database as it is, and run waybill audit verify. See "Back-up and restore" in ' +
      'docs/operators.md',
  );
}

/**
 * Throws MigrationError if no migration was applied, and the schemas of Waybill have something in
 * them all the same: a restore was interrupted, or is still under way. A log would begin in it.
 */
async function requireEmpty(tx: Transaction): Promise<void> {
  const [found] = await tx<{ name: string }[]>`
    select nspname || '.' || name as name
      from (select relnamespace as schema, relname as name from pg_class
            union all select pronamespace, proname from pg_proc) as object
      join pg_namespace n on n.oid = schema
     where nspname in ('log', 'read', 'work') and name not like 'migrations%' order by 1 limit 1`;
  if (found !== undefined)
    throw new MigrationError(
      `The database has ${found.name}, but no record of the migrations of Waybill. If a back-up ` +
        'is restored to it, the restore has not come to its end: wait for it, or restore the ' +
        'back-up into an empty database. If not, give Waybill a database of its own',
    );
}

/**
 * Throws MigrationError for a database that cannot store every file name. Only a new installation is
 * asked: one that works is left alone.
 */
async function requireUtf8(tx: Transaction): Promise<void> {
  const [row] = await tx<{ name: string; encoding: string }[]>`
    select current_database() as name, current_setting('server_encoding') as encoding`;
  if (row?.encoding === 'UTF8') return;
  throw new MigrationError(
    `The database ${row?.name} has the encoding ${row?.encoding}, which cannot store every file ` +
      "name. Create one with: create database NAME encoding 'UTF8' locale 'C' template template0",
  );
}

function lock(tx: Transaction): PromiseLike<unknown> {
  return tx`select pg_advisory_xact_lock(${LOCK})`;
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
  await lock(tx);
  await tx`create schema if not exists work`;
  await tx`create table if not exists work.migrations (
    name text collate "C" primary key,
    sha256 text not null,
    applied_at timestamptz not null default now()
  )`;
  const applied = await tx<
    { name: string; sha256: string }[]
  >`select name, sha256 from work.migrations order by name`;
  if (applied.length === 0) {
    await requireEmpty(tx);
    await requireUtf8(tx);
  }
  const known = new Map(migrations.map((migration) => [migration.name, migration.sha256]));
  for (const { name, sha256 } of applied) {
    const expected = known.get(name);
    if (sha256 === expected || sha256 === FORMER_TEXTS.get(name)) continue;
    throw new MigrationError(
      expected === undefined
        ? `The database was migrated by a newer version of Waybill (${name} is not known ` +
            'here). Start that version or a later one.'
        : `The migration ${name} was changed after it had been applied to this database. Start ` +
            'the version of Waybill that applied it. If you changed the file, restore it, and put ' +
            'the change into a new migration.',
    );
  }
  const done = new Set(applied.map(({ name }) => name));
  const next = migrations.find(({ name }) => !done.has(name));
  if (next === undefined) return null;
  try {
    await tx.unsafe(next.text);
  } catch (error) {
    throw new MigrationError(`The migration ${next.name} fails: ${(error as Error).message}`, {
      cause: error,
    });
  }
  await tx`insert into work.migrations (name, sha256) values (${next.name}, ${next.sha256})`;
  return next.name;
}
