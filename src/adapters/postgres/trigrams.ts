/*
 * The extension pg_trgm, whose indexes find any part of a text. The embedded Postgres has it.
 * Another Postgres may lack its files, or allow only an administrator to create it.
 */
import type { Queryable, Sql } from './connect.ts';

/** Creates the extension if it is missing. Returns why it cannot be created, or null. */
export async function installTrigrams(sql: Sql): Promise<string | null> {
  try {
    // Not in the schema `read`, which may be dropped, nor in `public`, where the user may lack the
    // right to create. An administrator may have created it in any schema.
    await sql`create extension if not exists pg_trgm with schema work`;
    return null;
  } catch (error) {
    // Another process may have created it in the same moment.
    if ((await trigramSchema(sql)) !== null) return null;
    return (error as Error).message;
  }
}

/** Returns the schema that has the extension's operators, or null if there is no extension. */
export async function trigramSchema(sql: Queryable): Promise<string | null> {
  const [row] = await sql<{ schema: string }[]>`
    select nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace
     where extname = 'pg_trgm'`;
  return row?.schema ?? null;
}
