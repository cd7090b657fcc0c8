import type { Sql, Transaction } from './connect.ts';
import { FUNCTIONS, readFunctions } from './sql-functions.ts';

/** Schemas with functions. `read` has none. */
const OWNERS = ['log', 'work'];
/** This version's functions are created in schemas whose names begin with this. */
const SHIPPED = 'waybill_shipped_';

/** Ends the transaction in which both are compared. */
const COMPARED = new Error('compared');

/**
 * Returns what is wrong with the SQL functions, triggers and rules in some of our schemas: which
 * ones are not as this version installs them, are missing, or have another origin. The table
 * `work.sql_functions` does not show a function that was replaced since.
 *
 * Only Postgres knows a definition in full, so it defines this version's functions again, in
 * schemas of their own. The transaction is rolled back, and locks no table.
 */
export async function foreignCode(sql: Sql, schemas: string[]): Promise<string[]> {
  const texts = (await readFunctions(FUNCTIONS)).map(({ text }) => text);
  const problems: string[] = [];
  await sql
    .begin(async (tx) => {
      // A definition leaves out the schemas of this path.
      await tx`set local search_path = ''`;
      const installed = await codeIn(tx, schemas, '');
      await createShipped(tx, texts);
      problems.push(...differences(installed, await codeIn(tx, schemas, SHIPPED)));
      throw COMPARED;
    })
    .catch((error: unknown) => {
      if (error !== COMPARED) throw error;
    });
  return problems;
}

/** Definitions by the names of functions, triggers and rules. */
type Code = ReadonlyMap<string, string>;

function differences(installed: Code, shipped: Code): string[] {
  const names = new Set([...shipped.keys(), ...installed.keys()]);
  return [...names].sort().flatMap((name) => {
    if (!installed.has(name)) return `${name} is missing`;
    if (!shipped.has(name)) return `${name} is none of Waybill's`;
    return installed.get(name) === shipped.get(name) ? [] : `${name} was changed or disabled`;
  });
}

/** Creates the functions of these texts, and their triggers on tables without columns. */
async function createShipped(tx: Transaction, texts: string[]): Promise<void> {
  const all = texts.join('\n');
  const tables = all.matchAll(/\bon (\w+\.\w+)\s+(?:for|referencing)/g);
  const schemas = new RegExp(String.raw`\b(${OWNERS.join('|')})\.`, 'g');
  for (const schema of OWNERS) await tx`create schema ${tx(SHIPPED + schema)}`;
  for (const table of new Set([...tables].map(([, name]) => name)))
    await tx`create table ${tx(SHIPPED + table)} ()`;
  // The bodies name tables that are not there.
  await tx`set local check_function_bodies = off`;
  await tx.unsafe(all.replaceAll(schemas, `${SHIPPED}$1.`));
}

/** Returns the code of the schemas whose names begin with the prefix, without the prefix. */
async function codeIn(tx: Transaction, schemas: string[], prefix: string): Promise<Code> {
  const prefixed = schemas.map((schema) => prefix + schema);
  const rows = await tx<{ name: string; definition: string }[]>`
    -- with all functions of this name
    select format('the SQL function %s.%s', nspname, proname) as name,
           string_agg(case when prokind = 'a' then '' else pg_get_functiondef(p.oid) end, E'\\n'
                      order by proargtypes::text) as definition
      from pg_proc p join pg_namespace n on n.oid = pronamespace
     where nspname = any(${prefixed}::text[]) group by 1
    union all
    select format('the trigger %s of %s.%s', tgname, nspname, relname),
           pg_get_triggerdef(t.oid) || case when tgenabled in ('O', 'A') then '' else ' disabled' end
      from pg_trigger t
      join pg_class c on c.oid = tgrelid
      join pg_namespace n on n.oid = relnamespace
     where nspname = any(${prefixed}::text[]) and not tgisinternal
    union all
    select format('the rule %s of %s.%s', rulename, schemaname, tablename), definition
      from pg_rules where schemaname = any(${prefixed}::text[])`;
  const own = (text: string) => text.replaceAll(prefix, '');
  return new Map(rows.map(({ name, definition }) => [own(name), own(definition)]));
}
