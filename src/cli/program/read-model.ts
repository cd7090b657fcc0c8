import { DomainError } from '../../domain/errors.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import type { Installation } from '../../installation.ts';
import { note } from './output.ts';

/**
 * Returns what `read` finds in read models, after these have caught up with the log: their tables
 * may just have been created. If one cannot catch up, says on stderr that the answer may be old.
 * Throws `unavailable` then if `count` of what was found is 0, which proves nothing.
 */
export async function fromReadModels<Found>(
  { commands }: Pick<Installation, 'commands'>,
  names: ProjectionName[],
  read: () => Promise<Found>,
  count: (found: Found) => number,
): Promise<Found> {
  const areWhole = await Promise.all(names.map((name) => commands.catchUp(name)));
  const late = names.find((_, i) => !areWhole[i]);
  const found = await read();
  if (late === undefined) return found;
  const behind =
    `The read model ${late} is behind the log, or is being rebuilt from it: \`waybill projections ` +
    'list` shows how far it is';
  if (count(found) === 0)
    throw new DomainError('unavailable', `${behind}. Run the command again when it has caught up`);
  note(`${behind}. The answer may be out of date`);
  return found;
}

/** Returns a list from the catalog, as `fromReadModels`. */
export function fromCatalog<Item>(
  installation: Installation,
  list: (sql: Installation['sql']) => Promise<Item[]>,
): Promise<Item[]> {
  const read = () => list(installation.sql);
  return fromReadModels(installation, ['catalog'], read, ({ length }) => length);
}
