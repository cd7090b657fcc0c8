/*
 * What the lists of several read models share: pages, times and words.
 */

export interface Page {
  limit: number;
  offset: number;
}

/** The part of a filter that says when: both inclusive, ISO 8601. */
interface Times {
  from?: string | undefined;
  to?: string | undefined;
}

/** Returns the times of a filter: from `from`, inclusive, to `beyond`, exclusive. */
export function timesOf({ from, to }: Times): { from: string; beyond: string } {
  return {
    from: from ?? '-infinity',
    beyond: to === undefined ? 'infinity' : instantOf(Date.parse(to) + 1),
  };
}

/**
 * Formats an instant for Postgres, which misreads years of five digits (they start with a plus).
 */
export function instantOf(ms: number): string {
  const instant = new Date(ms).toISOString();
  return instant.startsWith('+') ? 'infinity' : instant;
}

/** Returns the words of a query, each once and normalized. */
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

/**
 * Returns a text in lower case, in which `Z` and four letters from A to P stand for each character
 * beyond ASCII. So a short word of another script has trigrams too, and they are few enough for an
 * index. Capital letters occur nowhere else, so no ASCII word matches a part of a code.
 */
export function normalize(text: string): string {
  // Most texts: the rest would take longer than all else that is done to them.
  if (isAscii(text)) return text.toLowerCase();
  return (
    text
      .normalize('NFC')
      .toLowerCase()
      // A capital sigma becomes either of them, by its place in the word.
      .replaceAll('ς', 'σ')
      .replace(/(?!\s)[^\0-\x7f]/g, (character) => {
        const code = character.charCodeAt(0);
        const nibbles = [12, 8, 4, 0].map((shift) => (code >> shift) & 15);
        return `Z${nibbles.map((nibble) => 'ABCDEFGHIJKLMNOP'[nibble]).join('')}`;
      })
  );
}

function isAscii(text: string): boolean {
  return !/[^\0-\x7f]/.test(text);
}
