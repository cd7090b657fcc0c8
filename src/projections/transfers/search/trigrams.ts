/*
 * An index of texts by their trigrams: each three characters in a row without a space. The index
 * has lists of the numbers of texts. Each trigram belongs to one list, and a list has the numbers
 * of the texts with any of its trigrams. So a text that has a word is in the lists of the word's
 * trigrams. A text in all of them need not have the word: a search compares the texts that it finds
 * here.
 *
 * A list is one of two, whichever is shorter:
 * - A bitmap, with a bit for each text.
 * - The distances between the numbers, each in one byte (up to 127) or more.
 */

const TRIGRAM = 3;
/** A power of two. More lists take more space, fewer lists find more texts without the word. */
const LISTS = 16_384;
const LIST_BITS = Math.log2(LISTS);
/** Two bytes with this distance have no number: the next distance counts from there. */
const FAR = 0x7fff;
/** The numbers of texts have 16 bits while an index is created. */
const MAX_TEXTS = 65_536;

/** Returns the lists that have each text with the word; none if an index cannot find the word. */
export function listsOf(word: string): number[] {
  const lists = new Set<number>();
  eachList(word, (list) => lists.add(list));
  return [...lists];
}

/** The numbers of the texts that have a trigram of a list, in ascending order. */
export interface TextList {
  list: number;
  numbers: Uint8Array;
}

/** Creates an empty index of at most MAX_TEXTS texts. */
export function createTrigramIndex() {
  /** The lists of each text, one text after the other. */
  let found = new Uint16Array(1 << 20);
  let length = 0;
  /** Where the lists of each text end. */
  const ends: number[] = [];
  /** The last text of each list. */
  const last = new Int32Array(LISTS).fill(-1);
  return {
    /** Adds the next text. */
    add(text: string): void {
      const number = ends.length;
      if (number === MAX_TEXTS) throw new RangeError(`an index has at most ${MAX_TEXTS} texts`);
      if (length + text.length > found.length) {
        const larger = new Uint16Array(2 * (length + text.length));
        larger.set(found);
        found = larger;
      }
      eachList(text, (list) => {
        if (last[list] === number) return;
        last[list] = number;
        found[length++] = list;
      });
      ends.push(length);
    },
    /** Yields the lists that are not empty, in ascending order, `atOnce` at a time. */
    *lists(atOnce: number): Generator<TextList[]> {
      const { starts, numbers } = sortByList(found.subarray(0, length), ends);
      const encode = createEncoder(ends.length);
      for (let from = 0; from < LISTS; from += atOnce) {
        const lists: TextList[] = [];
        for (let list = from; list < Math.min(from + atOnce, LISTS); list++) {
          const own = numbers.subarray(starts[list], starts[list + 1]);
          if (own.length > 0) lists.push({ list, numbers: encode(own) });
        }
        if (lists.length > 0) yield lists;
      }
    },
  };
}

/** Returns the numbers of the texts of each list, one list after the other. */
function sortByList(
  found: Uint16Array,
  ends: number[],
): { starts: Uint32Array; numbers: Uint16Array } {
  const starts = new Uint32Array(LISTS + 1);
  for (let i = 0; i < found.length; i++) add(starts, (found[i] as number) + 1, 1);
  for (let list = 0; list < LISTS; list++) add(starts, list + 1, starts[list] as number);
  const numbers = new Uint16Array(found.length);
  const next = starts.slice();
  for (let number = 0, i = 0; number < ends.length; number++)
    for (; i < (ends[number] as number); i++) {
      const list = found[i] as number;
      numbers[next[list] as number] = number;
      add(next, list, 1);
    }
  return { starts, numbers };
}

function add(to: Uint32Array, at: number, value: number): void {
  to[at] = (to[at] as number) + value;
}

/** Returns the numbers that are in all lists, ascending. `texts`: how many the index has. */
export function inAll(lists: Uint8Array[], texts: number): number[] {
  const bitmaps = lists.filter((list) => isBitmap(list, texts));
  const [shortest, ...others] = lists
    .filter((list) => !isBitmap(list, texts))
    .toSorted((a, b) => a.length - b.length);
  if (shortest === undefined) return bitmaps.length === 0 ? [] : setInAll(bitmaps);
  let numbers = toNumbers(shortest);
  for (const list of others) numbers = inBoth(numbers, toNumbers(list));
  return numbers.filter((number) => bitmaps.every((bitmap) => isSet(bitmap, number)));
}

function eachList(text: string, found: (list: number) => void): void {
  let trigram = 0;
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // Texts are ASCII, but for some spaces.
    length = code > 0x20 && code < 0x7f ? length + 1 : 0;
    trigram = (trigram << 7) | code;
    if (length >= TRIGRAM) found(Math.imul(trigram & 0x1f_ffff, 0x9e37_79b1) >>> (32 - LIST_BITS));
  }
}

function createEncoder(texts: number): (numbers: Uint16Array) => Uint8Array {
  const most = bitmapBytes(texts);
  // Two bytes for each number, and for distances that no number ends.
  const bytes = new Uint8Array(2 * (most + Math.ceil(texts / FAR)));
  return (numbers) => {
    if (numbers.length >= most) return bitmapOf(numbers, texts);
    let length = 0;
    let next = 0;
    for (let i = 0; i < numbers.length; i++) {
      let distance = (numbers[i] as number) - next;
      next += distance + 1;
      for (; distance >= FAR; distance -= FAR) {
        bytes[length++] = 0xff;
        bytes[length++] = 0xff;
      }
      if (distance > 0x7f) bytes[length++] = 0x80 | (distance >> 8);
      bytes[length++] = distance & 0xff;
    }
    return length < most ? bytes.slice(0, length) : bitmapOf(numbers, texts);
  };
}

function toNumbers(distances: Uint8Array): number[] {
  const numbers: number[] = [];
  let next = 0;
  for (let i = 0; i < distances.length; i++) {
    const byte = distances[i] as number;
    const distance = byte > 0x7f ? ((byte & 0x7f) << 8) | (distances[++i] as number) : byte;
    next += distance;
    if (distance < FAR) numbers.push(next++);
  }
  return numbers;
}

function bitmapBytes(texts: number): number {
  return Math.ceil(texts / 8);
}

function isBitmap(list: Uint8Array, texts: number): boolean {
  return list.length === bitmapBytes(texts);
}

function bitmapOf(numbers: Uint16Array, texts: number): Uint8Array {
  const bytes = new Uint8Array(bitmapBytes(texts));
  for (const number of numbers)
    bytes[number >> 3] = (bytes[number >> 3] as number) | (1 << (number & 7));
  return bytes;
}

function isSet(bitmap: Uint8Array, number: number): boolean {
  return ((bitmap[number >> 3] as number) & (1 << (number & 7))) !== 0;
}

/** Returns the numbers of the bits that are set in all bitmaps. */
function setInAll(bitmaps: Uint8Array[]): number[] {
  const [first, ...others] = bitmaps as [Uint8Array, ...Uint8Array[]];
  const numbers: number[] = [];
  for (let at = 0; at < first.length; at++) {
    let byte = first[at] as number;
    for (const other of others) byte &= other[at] as number;
    for (let bit = 0; byte >> bit > 0; bit++)
      if (((byte >> bit) & 1) === 1) numbers.push(8 * at + bit);
  }
  return numbers;
}

/** Both are in ascending order, and so is the result. */
function inBoth(some: number[], others: number[]): number[] {
  let at = 0;
  return some.filter((number) => {
    while (at < others.length && (others[at] as number) < number) at++;
    return others[at] === number;
  });
}
