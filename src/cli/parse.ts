import { InvalidArgumentError } from 'commander';
import type { z } from 'zod';
import { inWords } from '../commands/wording.ts';
import { DomainError, type FieldError } from '../domain/errors.ts';

/** What a person wrote, as a command takes it. Throws DomainError `validation_failed` with all that is wrong. */
export function parseRequest<Schema extends z.ZodType>(schema: Schema, value: unknown, what: string): z.output<Schema> {
  const parsed = schema.safeParse(value, { error: inWords });
  if (parsed.success) return parsed.data;
  throw new DomainError('validation_failed', `${what} is not valid:`, { errors: parsed.error.issues.flatMap(fieldErrors) });
}

function fieldErrors(issue: z.core.$ZodIssue): FieldError[] {
  const field = issue.path.join('.');
  if (issue.code !== 'unrecognized_keys') return [{ field: field || 'all of it', code: 'validation_failed', message: issue.message }];
  return issue.keys.map((key) => ({
    field: field ? `${field}.${key}` : key,
    code: 'unknown_field',
    message: 'is not known; check its spelling',
  }));
}

/** For options that are lists: `a,b`. */
export function commaSeparated(text: string): string[] {
  return text.split(',').map((item) => item.trim());
}

export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (!/^\d+$/.test(text) || number < min || number > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return number;
  };
}

/** For an option that may be repeated: `key=value`. */
export function keyValue(text: string, previous: Record<string, string>): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('It must be KEY=VALUE.');
  return { ...previous, [text.slice(0, at)]: text.slice(at + 1) };
}
