import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql, Transaction } from './connect.ts';
import { MigrationError } from './migration-error.ts';

/**
 * One file for each function, `schema.name.sql`. The first line is its version: `-- version: 1`.
 */
export const FUNCTIONS = join(import.meta.dirname, 'functions');

interface SqlFunction {
  schema: string;
  name: string;
  version: number;
  text: string;
  sha256: string;
}

interface Installed {
  version: number;
  sha256: string;
}

/**
 * Installs each function whose version is higher than the installed one. Throws MigrationError when
 * a newer version of the service installed one, when a text changed and its version did not, or
 * when Postgres rejects it. A version that no longer needs a function drops it, and its row, in a
 * migration.
 */
export async function installFunctions(
  sql: Sql,
  folder: string,
  lock: (tx: Transaction) => PromiseLike<unknown>,
): Promise<void> {
  const functions = await readFunctions(folder);
  await sql.begin(async (tx) => {
    await lock(tx);
    await tx`create table if not exists work.sql_functions (
      name text collate "C" primary key,
      version integer not null,
      sha256 text not null,
      installed_at timestamptz not null default now()
    )`;
    const rows = await tx<
      ({ name: string } & Installed)[]
    >`select name, version, sha256 from work.sql_functions`;
    const installed = new Map(rows.map(({ name, ...row }) => [name, row]));
    const known = new Set(functions.map(nameOf));
    const unknown = rows.find(({ name }) => !known.has(name));
    if (unknown !== undefined) throw ofNewerVersion(`the SQL function ${unknown.name}`);
    for (const fn of functions) {
      if (isDue(fn, installed.get(nameOf(fn)))) await install(tx, fn);
    }
  });
}

/** Changes nothing. Rejects as a write would: if Postgres takes none, or does not answer. */
export async function tryToWrite(sql: Sql): Promise<void> {
  await sql`delete from work.sql_functions where false`;
}

function isDue(fn: SqlFunction, installed: Installed | undefined): boolean {
  if (installed === undefined || installed.version < fn.version) return true;
  if (installed.version === fn.version && installed.sha256 !== fn.sha256) {
    throw new MigrationError(
      `The SQL function ${nameOf(fn)} was changed and its version was not. ` +
        'Raise the version in its first line.',
    );
  }
  if (installed.version > fn.version)
    throw ofNewerVersion(`version ${installed.version} of the SQL function ${nameOf(fn)}`);
  return false;
}

function nameOf({ schema, name }: SqlFunction): string {
  return `${schema}.${name}`;
}

function ofNewerVersion(unknown: string): MigrationError {
  return new MigrationError(
    `The database was migrated by a newer version of Waybill (${unknown} is not known here). ` +
      'Start that version or a later one.',
  );
}

async function install(tx: Transaction, fn: SqlFunction): Promise<void> {
  const { schema, name, version, text, sha256 } = fn;
  // `create or replace` cannot change what a function returns. Triggers depend on theirs, and
  // always return the same type.
  const outdated = await tx<{ signature: string }[]>`
    select p.oid::regprocedure::text as signature
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = ${schema} and p.proname = ${name} and p.prorettype <> 'trigger'::regtype`;
  try {
    for (const { signature } of outdated) await tx.unsafe(`drop function ${signature}`);
    await tx.unsafe(text);
  } catch (error) {
    throw new MigrationError(`The SQL function ${nameOf(fn)} fails: ${(error as Error).message}`, {
      cause: error,
    });
  }
  await tx`
    insert into work.sql_functions (name, version, sha256)
    values (${nameOf(fn)}, ${version}, ${sha256})
    on conflict (name) do update
       set version = excluded.version, sha256 = excluded.sha256, installed_at = now()`;
}

export async function readFunctions(folder: string): Promise<SqlFunction[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort();
  return Promise.all(
    files.map(async (file) => {
      const [schema = '', name = ''] = file.split('.');
      const text = await readFile(join(folder, file), 'utf8');
      const version = Number(/^-- version: (\d+)\n/.exec(text)?.[1]);
      if (!Number.isInteger(version)) {
        throw new MigrationError(`${file} must begin with a line such as "-- version: 1".`);
      }
      return {
        schema,
        name,
        version,
        text,
        sha256: createHash('sha256').update(text).digest('hex'),
      };
    }),
  );
}
