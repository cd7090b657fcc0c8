import type { z } from 'zod';

const NAMES: Record<string, string> = { record: 'object', int: 'whole number' };

/**
 * Returns what is wrong with a value, as text that follows the name of the field. Use it as
 * `safeParse(value, { error: inWords })`. The own messages of a schema take precedence.
 */
export function inWords(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is required';
      return `must be ${withArticle(NAMES[issue.expected] ?? issue.expected)}`;
    case 'invalid_value':
      return `must be one of ${issue.values.join(', ')}`;
    case 'invalid_union':
      return Array.isArray(issue.options)
        ? `must be one of ${issue.options.join(', ')}`
        : undefined;
    case 'invalid_key':
      return `has an invalid key: ${issue.issues.map(({ message }) => message).join(', ')}`;
    case 'too_small':
      if (isNumber(issue.origin)) return `must be at least ${issue.minimum}`;
      return issue.minimum === 1
        ? 'must not be empty'
        : `must have at least ${issue.minimum} ${partsOf(issue.origin)}`;
    case 'too_big':
      return isNumber(issue.origin)
        ? `must be at most ${issue.maximum}`
        : `must have at most ${issue.maximum} ${partsOf(issue.origin)}`;
    default:
      return undefined;
  }
}

/**
 * Removes the issues about the length of a value whose type is wrong. If a client sends a text in
 * place of a list, a schema also measures the text, and would ask for fewer characters.
 */
export function withoutLengths(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue[] {
  const placeOf = ({ path }: z.core.$ZodIssue) => path.map(String).join('\0');
  const ofOtherType = new Set(issues.filter(({ code }) => code === 'invalid_type').map(placeOf));
  return issues.filter(
    (issue) =>
      (issue.code !== 'too_small' && issue.code !== 'too_big') || !ofOtherType.has(placeOf(issue)),
  );
}

function withArticle(name: string): string {
  return `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`;
}

/** A whole number beyond the safe ones has an origin of its own. */
function isNumber(origin: string): boolean {
  return origin === 'number' || origin === 'int';
}

function partsOf(origin: string): string {
  return origin === 'string' ? 'characters' : 'items';
}

/** Returns the name of a field: `settings.host`, `items[17].destination_uri`. */
export function fieldName(path: PropertyKey[]): string {
  return path.reduce<string>(
    (parent, part) =>
      typeof part === 'number'
        ? `${parent}[${part}]`
        : [parent, String(part)].filter(Boolean).join('.'),
    '',
  );
}
