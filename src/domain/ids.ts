import { decodeTime, incrementBase32, ulid } from 'ulid';

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Prefixes of the identifiers that users see. A ULID follows each prefix. */
export type IdPrefix =
  | 'txr'
  | 'bat'
  | 'flo'
  | 'run'
  | 'evt'
  | 'whk'
  | 'dlv'
  | 'key'
  | 'end'
  | 'req'
  | 'clm'
  | 'vlt'
  | 'acs';

export function newId(prefix: IdPrefix, now: number = Date.now()): string {
  return `${prefix}_${ulid(now, random)}`;
}

/** Returns new ids in ascending order. */
export function newIds(prefix: IdPrefix, count: number): string[] {
  const now = Date.now();
  return Array.from({ length: count }, () => newId(prefix, now)).toSorted();
}

const randomBytes = new Uint8Array(4_096);
let used = randomBytes.length;

/**
 * Returns a random number from 0 (inclusive) to 1 (exclusive). It consumes one byte per character
 * of an id, and fetches 4,096 bytes of system randomness at a time.
 */
function random(): number {
  if (used === randomBytes.length) {
    crypto.getRandomValues(randomBytes);
    used = 0;
  }
  return (randomBytes[used++] as number) / 256;
}

/** Returns true for a well-formed id of this kind. Any other id is answered as not found. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return text.startsWith(`${prefix}_`) && ULID.test(text.slice(prefix.length + 1));
}

/** Returns when an id was created, in milliseconds since 1970. */
export function timeOf(id: string): number {
  return decodeTime(id.slice(id.indexOf('_') + 1));
}

/**
 * Returns an event id greater than `previous`, also within the same millisecond and after the
 * clock was set back.
 */
export function nextEventId(previous: string | null, now: number): string {
  const fresh = newId('evt', now);
  if (previous === null || fresh > previous) return fresh;
  // Increments the whole ULID: a random part at its maximum carries over into the time.
  return `evt_${incrementBase32(previous.slice('evt_'.length))}`;
}
