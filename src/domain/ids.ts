import { incrementBase32, ulid } from 'ulid';

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Prefixes of the identifiers that users see; each is followed by a ULID. */
export type IdPrefix = 'txr' | 'evt' | 'whk' | 'dlv' | 'key' | 'end' | 'req' | 'clm' | 'vlt';

export function newId(prefix: IdPrefix, now: number = Date.now()): string {
  return `${prefix}_${ulid(now)}`;
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
