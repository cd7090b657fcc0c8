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
      return oneOf(issue.values);
    case 'invalid_union':
      return Array.isArray(issue.options) ? oneOf(issue.options) : undefined;
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
 * Removes the issues about a limit that would mislead:
 *
 * - The length of a value whose type is wrong. If a client sends a text in place of a list, a schema
 *   also measures the text, and would ask for fewer characters.
 * - The limit of all whole numbers, where the field has a lower one.
 */
export function withoutVainLimits(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue[] {
  const placeOf = ({ path }: z.core.$ZodIssue) => path.map(String).join('\0');
  const placesOf = (isMeant: (issue: z.core.$ZodIssue) => boolean) =>
    new Set(issues.filter(isMeant).map(placeOf));
  const ofOtherType = placesOf(({ code }) => code === 'invalid_type');
  const withOwnLimit = placesOf((issue) => isLimit(issue) && issue.origin === 'number');
  return issues.filter((issue) => {
    if (!isLimit(issue)) return true;
    const place = placeOf(issue);
    return !ofOtherType.has(place) && !(issue.origin === 'int' && withOwnLimit.has(place));
  });
}

type Limit = z.core.$ZodIssueTooBig | z.core.$ZodIssueTooSmall;

function isLimit(issue: z.core.$ZodIssue): issue is Limit {
  return issue.code === 'too_small' || issue.code === 'too_big';
}

function oneOf(values: readonly unknown[]): string {
  return `must be ${values.length > 1 ? 'one of ' : ''}${values.join(', ')}`;
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

/**
 * Returns the reason of JSON.parse. Leaves out the part of the text that V8 quotes: it may be a
 * secret.
 */
export function whyNotJson({ message }: SyntaxError): string {
  return message.replace(/, (?:\.{3})?".*/s, '');
}

/** Characters of a key that the name of a field shows. */
const SHOWN_OF_KEY = 100;

/** Returns the name of a field: `settings.host`, `items[17].destination_uri`. */
export function fieldName(path: PropertyKey[]): string {
  return path.reduce<string>(
    (parent, part) =>
      typeof part === 'number'
        ? `${parent}[${part}]`
        : [parent, part === '' ? '""' : shownOf(String(part))].filter(Boolean).join('.'),
    '',
  );
}

function shownOf(key: string): string {
  const shown = key.length > SHOWN_OF_KEY ? `${key.slice(0, SHOWN_OF_KEY)}...` : key;
  return shown.toWellFormed();
}
