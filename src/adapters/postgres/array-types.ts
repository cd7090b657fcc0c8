import { joinTexts, Parts } from './long-texts.ts';

/** Maps one-dimensional arrays in the notation of Postgres: `{1,NULL,"a \"quoted\" one"}`. */
function arrayType<T>(oid: number, parseItem: (text: string) => T) {
  return {
    to: oid,
    from: [oid],
    // If a statement's plan is no longer valid, the driver sends the statement again, with the
    // parameters that it serialized the first time.
    serialize: (items: unknown) =>
      typeof items === 'string' || items instanceof Parts ? items : serialize(items as unknown[]),
    parse: (text: string): unknown =>
      parseItems(text).map((item) => (item === null ? null : parseItem(item))),
  };
}

function serialize(items: unknown[]): string | Parts {
  const joined = joinTexts(items.map(serializeItem), ',');
  return joined instanceof Parts ? Parts.of('{', ...joined, '}') : `{${joined}}`;
}

function serializeItem(item: unknown): string {
  if (item === null || item === undefined) return 'NULL';
  if (typeof item === 'number') return String(item);
  return `"${String(item).replace(/["\\]/g, '\\$&')}"`;
}

function parseItems(text: string): (string | null)[] {
  const items = text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs);
  return Array.from(items, ([, quoted, bare]) => {
    if (quoted !== undefined) return quoted.replace(/\\(.)/gs, '$1');
    return bare === 'NULL' ? null : (bare as string);
  });
}

/**
 * The array types that queries use. Without this list, the driver would query all of them on each
 * new connection. If that connection is lost meanwhile, the process ends: the rejection can't be
 * caught.
 */
export const ARRAY_TYPES = {
  textArray: arrayType(1009, String),
  integerArray: arrayType(1007, Number),
  bigintArray: arrayType(1016, BigInt),
  timestamptzArray: arrayType(1185, (text) => new Date(text).toISOString()),
};
