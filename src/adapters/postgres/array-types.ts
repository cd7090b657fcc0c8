/** One-dimensional arrays as Postgres writes them: `{1,NULL,"a \"quoted\" one"}`. */
function arrayType<T>(oid: number, parseItem: (text: string) => T) {
  return {
    to: oid,
    from: [oid],
    // A statement whose plan no longer holds is sent again by the driver, with what was made of its parameters the first time.
    serialize: (items: unknown) => (typeof items === 'string' ? items : `{${(items as unknown[]).map(serializeItem).join(',')}}`),
    parse: (text: string): unknown => parseItems(text).map((item) => (item === null ? null : parseItem(item))),
  };
}

function serializeItem(item: unknown): string {
  return item === null || item === undefined ? 'NULL' : `"${String(item).replace(/["\\]/g, '\\$&')}"`;
}

function parseItems(text: string): (string | null)[] {
  const items = text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs);
  return Array.from(items, ([, quoted, bare]) => {
    if (quoted !== undefined) return quoted.replace(/\\(.)/gs, '$1');
    return bare === 'NULL' ? null : (bare as string);
  });
}

/**
 * The array types that queries use. The driver would otherwise ask for all of them on each new connection,
 * and a connection that is lost meanwhile takes the process with it: nobody can catch that rejection.
 */
export const ARRAY_TYPES = {
  textArray: arrayType(1009, String),
  integerArray: arrayType(1007, Number),
  bigintArray: arrayType(1016, BigInt),
  timestamptzArray: arrayType(1185, (text) => new Date(text).toISOString()),
};
