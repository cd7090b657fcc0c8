import type { TransferCreated } from '../domain/transfer.ts';

type Searchable = Pick<
  TransferCreated,
  'transfer_id' | 'file_name' | 'source' | 'destination' | 'metadata'
>;

const LONG = 12;
/**
 * Trigrams of a long word that are in few texts of a sample: in which share of them, how many are
 * enough to find the word, and how many the index is asked for.
 */
const RARE = { share: 0.04, enough: 2, most: 6 };

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

/** Returns the pattern of LIKE for texts with this word. */
export function likePattern(word: string): string {
  return `%${word.replace(/[\\%_]/g, '\\$&')}%`;
}

/**
 * Returns a pattern that every text with this word matches, for an index of trigrams. The index
 * reads a list for each trigram, and long lists take long. If a word has enough trigrams that are
 * rare in a sample of texts, the index is asked for some of those only.
 */
export function indexPattern(word: string, sample: readonly string[]): string {
  // A sample may have the text that is looked for.
  const few = Math.max(1, sample.length * RARE.share);
  const rare: { index: number; text: string }[] = [];
  for (const { index, 1: text = '' } of word.matchAll(/(?=([a-z0-9]{3}))/gi)) {
    const isApart = index >= (rare.at(-1)?.index ?? -3) + 3;
    const found = sample.filter((other) => other.includes(text)).length;
    if (isApart && found <= few) rare.push({ index, text });
  }
  if (rare.length < RARE.enough) return likePattern(word);
  // The last ones: names end in what tells them apart.
  const asked = rare.slice(-RARE.most);
  return `%${asked.map(({ text }) => text).join('%')}%`;
}

/** Returns true if the index need not be asked for every trigram of the word. */
export function isLong(word: string): boolean {
  return word.length >= LONG;
}

/**
 * Returns true if an index of trigrams can find the word: it has three letters or digits in a row.
 */
export function hasTrigram(word: string): boolean {
  return /[a-z0-9]{3}/i.test(word);
}

/**
 * Returns a text in lower case, in which `Z` and four letters from A to P stand for each character
 * beyond ASCII. Postgres with the locale C takes none of those for letters, so its trigrams would
 * leave them out. Capital letters occur nowhere else, so no ASCII word matches a part of a code.
 */
function normalize(text: string): string {
  return text
    .normalize('NFC')
    .toLowerCase()
    .replace(/(?!\s)[^\0-\x7f]/g, (character) => {
      const code = character.charCodeAt(0);
      const nibbles = [12, 8, 4, 0].map((shift) => (code >> shift) & 15);
      return `Z${nibbles.map((nibble) => 'ABCDEFGHIJKLMNOP'[nibble]).join('')}`;
    });
}
