import type { TransferCreated } from '../../../domain/transfers/transfer.ts';

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

/** Returns the words of a query, normalized as `searchText` is. */
export function searchWords(query: string): string[] {
  return [...new Set(normalize(query).split(/\s+/).filter(Boolean))];
}

/** Returns true if each word is part of the text. */
export function hasWords(text: string, words: readonly string[]): boolean {
  return words.every((word) => text.includes(word));
}

/** Returns true if each word of a query is part of one of the texts. For lists that fit a page. */
export function matches(query: string, texts: string[]): boolean {
  return hasWords(normalize(texts.join('\n')), searchWords(query));
}

/** Returns the pattern of LIKE for texts with this word. */
export function likePattern(word: string): string {
  return `%${word.replace(/[\\%_]/g, '\\$&')}%`;
}

/**
 * Returns a text in lower case, in which `Z` and four letters from A to P stand for each character
 * beyond ASCII. So a short word of another script has trigrams too, and they are few enough for an
 * index. Capital letters occur nowhere else, so no ASCII word matches a part of a code.
 */
function normalize(text: string): string {
  // Most texts: the rest would take longer than all else that is done to them.
  if (isAscii(text)) return text.toLowerCase();
  return text
    .normalize('NFC')
    .toLowerCase()
    .replace(/(?!\s)[^\0-\x7f]/g, (character) => {
      const code = character.charCodeAt(0);
      const nibbles = [12, 8, 4, 0].map((shift) => (code >> shift) & 15);
      return `Z${nibbles.map((nibble) => 'ABCDEFGHIJKLMNOP'[nibble]).join('')}`;
    });
}

function isAscii(text: string): boolean {
  return !/[^\0-\x7f]/.test(text);
}
