/*
 * The id of an event and the UUID of its record are the same 128 bits. An id writes them as a ULID:
 * two characters for the first 8 bits, then four characters for each 20 bits.
 */

const PREFIX = 'evt_';
const ULID = /^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
const CHARACTERS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const VALUES = new Map([...CHARACTERS].map((character, value) => [character.charCodeAt(0), value]));

/** Returns the UUID for an event id, in lowercase. Throws TypeError for anything else. */
export function toUuid(id: string): string {
  if (!ULID.test(id)) throw new TypeError(`${id} is not the id of an event`);
  let hex = bitsOf(id, PREFIX.length, 2).toString(16).padStart(2, '0');
  for (let at = PREFIX.length + 2; at < id.length; at += 4)
    hex += bitsOf(id, at, 4).toString(16).padStart(5, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Returns the event id for a UUID. */
export function toEventId(uuid: string): string {
  const hex = uuid.replaceAll('-', '');
  let id = PREFIX + characters(Number.parseInt(hex.slice(0, 2), 16), 2);
  for (let at = 2; at < hex.length; at += 5)
    id += characters(Number.parseInt(hex.slice(at, at + 5), 16), 4);
  return id;
}

function bitsOf(text: string, from: number, count: number): number {
  let value = 0;
  for (let at = from; at < from + count; at++)
    value = value * 32 + (VALUES.get(text.charCodeAt(at)) as number);
  return value;
}

function characters(value: number, count: number): string {
  let text = '';
  for (let left = value; text.length < count; left >>>= 5)
    text = CHARACTERS.charAt(left & 31) + text;
  return text;
}
