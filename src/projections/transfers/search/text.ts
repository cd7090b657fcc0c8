import type { TransferCreated } from '../../../domain/transfers/transfer.ts';
import { normalize } from '../../lists.ts';

type Searchable = Pick<
  TransferCreated,
  'transfer_id' | 'file_name' | 'source' | 'destination' | 'metadata'
>;

/** Returns false for data that was changed so that it cannot be searched. */
export function isSearchable(data: unknown): boolean {
  const { metadata, ...fields } = (data ?? {}) as { [Name in keyof Searchable]?: unknown };
  const { transfer_id, file_name, source, destination } = fields;
  return (
    [transfer_id, file_name, source, destination].every((field) => typeof field === 'string') &&
    typeof metadata === 'object' &&
    metadata !== null
  );
}

/** Returns the text in which a transfer is found: all that can be searched, normalized. */
export function searchText({ transfer_id, file_name, source, destination, metadata }: Searchable) {
  const parts = [transfer_id, source, destination, ...Object.entries(metadata).flat()];
  // Most sources end in the name as it is.
  if (!source.endsWith(file_name)) parts.push(file_name);
  return normalize(parts.join('\n'));
}

/** Returns the pattern of LIKE for texts with this word. */
export function likePattern(word: string): string {
  return `%${word.replace(/[\\%_]/g, '\\$&')}%`;
}
