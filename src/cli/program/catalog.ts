import { DomainError } from '../../domain/errors.ts';
import type { Installation } from '../../installation.ts';
import { note } from './output.ts';

const BEHIND =
  'The read model catalog is behind the log, or is being rebuilt from it: `waybill projections ' +
  'list` shows how far it is';

/**
 * Returns a list from the catalog, after that has caught up with the log: its tables may just have
 * been created. If it cannot catch up, says on stderr that the list may be old. Throws `unavailable`
 * for an empty list then, which proves nothing.
 */
export async function fromCatalog<Item>(
  { sql, commands }: Installation,
  list: (sql: Installation['sql']) => Promise<Item[]>,
): Promise<Item[]> {
  const isWhole = await commands.catchUp('catalog');
  const found = await list(sql);
  if (isWhole) return found;
  if (found.length === 0)
    throw new DomainError('unavailable', `${BEHIND}. Run the command again when it has caught up`);
  note(`${BEHIND}. The list may be out of date`);
  return found;
}
