import { isDeepStrictEqual } from 'node:util';
import type { Difference } from '../projection.ts';

/** Fields that are named for one row. */
const NAMED = 5;

/** Says what differs in a row: `KEY: FIELD is VALUE, and VALUE by the log`. */
export function inWords({ key, live, log }: Difference): string {
  const missing = live === undefined && log === undefined;
  if (missing) return `${key} differs`;
  if ((live ?? null) === null) return `${key} is missing in the table`;
  if ((log ?? null) === null) return `${key} is in the table, and does not follow from the log`;
  const fields = differing(live, log, '');
  const named = fields.slice(0, NAMED).map(({ path, is, expected }) => {
    const name = path === '' ? '' : `${path} `;
    return `${name}is ${shown(is)}, and ${shown(expected)} by the log`;
  });
  const more = fields.length > NAMED ? [`${fields.length - NAMED} more fields differ`] : [];
  return `${key}: ${[...named, ...more].join('; ')}`;
}

interface Field {
  path: string;
  is: unknown;
  expected: unknown;
}

function differing(is: unknown, expected: unknown, path: string): Field[] {
  if (isDeepStrictEqual(is, expected)) return [];
  if (!isObject(is) || !isObject(expected)) return [{ path, is, expected }];
  const names = Object.keys({ ...is, ...expected });
  return names.flatMap((name) =>
    differing(is[name], expected[name], path === '' ? name : `${path}.${name}`),
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  return value === undefined ? 'missing' : JSON.stringify(value);
}
