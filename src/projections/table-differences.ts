import type { Difference, Projection } from './projection.ts';

/**
 * Creates `Projection.differences` for tables whose rows have the `position` of their last event.
 * `keys` has the columns of the primary key of each table.
 */
export function tableDifferences(keys: Record<string, string[]>): Projection['differences'] {
  return async (tx, { live, shadow, position, limit }) => {
    const found: Difference[] = [];
    for (const [table, key] of Object.entries(keys)) {
      const rows = await tx<Difference[]>`
        select concat_ws(' ', ${tx(key)}) as key, to_jsonb(l) as live, to_jsonb(s) as log
          from ${tx(live)}.${tx(table)} l full join ${tx(shadow)}.${tx(table)} s using (${tx(key)})
         where coalesce(l.position, 0) <= ${position} and coalesce(s.position, 0) <= ${position}
           and l is distinct from s
         limit ${limit - found.length}`;
      found.push(...rows);
    }
    return found;
  };
}
