import { createHash } from 'node:crypto';

/**
 * Returns the RFC 8785 form of a JSON value: no spaces, keys in the order of their UTF-16 units,
 * numbers and strings as ECMAScript writes them.
 */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(',')}}`;
}

/** Lowercase hex. */
export function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** True for JSON values that differ at most in the order of their keys. */
export function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

/** Names the members in which two objects differ, with both values. */
export function differences(actual: unknown, expected: unknown): string {
  if (!isObject(actual) || !isObject(expected))
    return `${short(actual)} instead of ${short(expected)}`;
  const names = [...new Set([...Object.keys(actual), ...Object.keys(expected)])];
  const differing = names.filter(
    (name) =>
      (actual[name] === undefined) !== (expected[name] === undefined) ||
      !same(actual[name] ?? null, expected[name] ?? null),
  );
  return differing
    .map((name) => {
      const [is, should] = [actual[name], expected[name]];
      return isObject(is) && isObject(should)
        ? `${name}.(${differences(is, should)})`
        : `${name}: ${short(is)} instead of ${short(should)}`;
    })
    .join('; ');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function short(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}
