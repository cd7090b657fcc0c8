import { incrementBase32, ulid } from 'ulid';

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Prefixes of the identifiers that users see; each is followed by a ULID. */
export type IdPrefix = 'txr' | 'evt' | 'whk' | 'dlv' | 'key' | 'end' | 'req' | 'clm' | 'vlt';

export function newId(prefix: IdPrefix, now: number = Date.now()): string {
  return `${prefix}_${ulid(now, random)}`;
}

const randomBytes = new Uint8Array(4_096);
let used = randomBytes.length;

/** From 0 up to 1, from the system's own randomness, of which it takes a page at a time: one byte a character is all that an id asks for. */
function random(): number {
  if (used === randomBytes.length) {
    crypto.getRandomValues(randomBytes);
    used = 0;
  }
  return (randomBytes[used++] as number) / 256;
}

/** True for a well-formed id of this kind; anything else can't exist and is answered as not found. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return text.startsWith(`${prefix}_`) && ULID.test(text.slice(prefix.length + 1));
}

/** An event id greater than `previous`, also within one millisecond and after the clock was set back. */
export function nextEventId(previous: string | null, now: number): string {
  const fresh = newId('evt', now);
  if (previous === null || fresh > previous) return fresh;
  // All of it, not its random part alone: where that is at its end, the time carries on.
  return `evt_${incrementBase32(previous.slice('evt_'.length))}`;
}
