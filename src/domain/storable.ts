/*
 * Text that others send, such as a server's error or the name of a file. Postgres stores no NUL in
 * a `text` or `jsonb`, and JSON in the form of RFC 8785 has no half characters. A read model that
 * meets one in an event would stop there for good.
 */

/** Returns the text with U+FFFD in place of each NUL and each unpaired surrogate. */
export function storable(value: string): string {
  return value.toWellFormed().replaceAll('\0', '\ufffd');
}

/** Returns true for text that `storable` leaves as it is. */
export function isStorable(value: string): boolean {
  return value.isWellFormed() && !value.includes('\0');
}

/** Returns JSON data whose strings and keys are `storable`: the data themselves if they are. */
export function storableData<Value>(data: Value): Value {
  return isStorableData(data) ? data : (replaced(data) as Value);
}

function isStorableData(value: unknown): boolean {
  if (typeof value === 'string') return isStorable(value);
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorableData);
  for (const key of Object.keys(value))
    if (!isStorable(key) || !isStorableData((value as Record<string, unknown>)[key])) return false;
  return true;
}

function replaced(value: unknown): unknown {
  if (typeof value === 'string') return storable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(replaced);
  const entries = Object.entries(value).map(([key, item]) => [storable(key), replaced(item)]);
  return Object.fromEntries(entries);
}
