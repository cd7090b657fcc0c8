/*
 * The owner of `work.key_use`: when each key was last used, to the minute.
 */
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';

/** Records that a key is in use. */
export async function noteKeyUse(sql: Sql, keyId: string): Promise<void> {
  await sql`
    insert into work.key_use (key_id, used_at) values (${keyId}, now())
    on conflict (key_id) do update set used_at = excluded.used_at`;
}

/** Selects `key_id` and `used_at` of all keys that were ever used. */
export function keyUses(sql: Queryable) {
  return sql`select key_id, used_at from work.key_use`;
}
