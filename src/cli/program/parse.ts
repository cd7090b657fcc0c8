import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { InvalidArgumentError } from 'commander';
import type { z } from 'zod';
import { requestedAccount } from '../../contract/keys.ts';
import {
  fieldName,
  inWords,
  whyNotJson,
  withoutVainLimits,
} from '../../contract/validation-messages.ts';
import { DEFAULT_ACCOUNT } from '../../domain/account.ts';
import { DomainError, type FieldError } from '../../domain/errors.ts';
import { terminal } from './terminal.ts';

/**
 * Parses user input with a schema. Throws DomainError `validation_failed`, which names every fault
 * at once.
 */
export function parseRequest<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value, { error: inWords });
  if (parsed.success) return parsed.data;
  throw new DomainError('validation_failed', `${what} is not valid:`, {
    errors: withoutVainLimits(parsed.error.issues).flatMap(fieldErrors),
  });
}

function fieldErrors(issue: z.core.$ZodIssue): FieldError[] {
  const field = fieldName(issue.path);
  if (issue.code !== 'unrecognized_keys')
    return [
      { field: field || 'the whole input', code: 'validation_failed', message: issue.message },
    ];
  return issue.keys.map((key) => ({
    field: fieldName([...issue.path, key]),
    code: 'unknown_field',
    message: 'is not a known field: check its spelling',
  }));
}

/** Reads a file with JSON; `-` is stdin. Throws `invalid_json`. */
export async function readJson(file: string): Promise<unknown> {
  const isStdin = file === '-';
  const content = isStdin ? await text(terminal().stdin()) : await readFile(file, 'utf8');
  try {
    return JSON.parse(content);
  } catch (error) {
    const reason = whyNotJson(error as SyntaxError);
    throw new DomainError('invalid_json', `${isStdin ? 'stdin' : file} is not JSON: ${reason}`);
  }
}

/** Parses an option that is a list: `a,b`. */
export function commaSeparated(text: string): string[] {
  return text.split(',').map((item) => item.trim());
}

/** A part of a glob that may have commas, or else a character. */
const PART_OF_GLOB = /\\.|\{[^{}]*\}|\[[^\]]*\]|[?*+@!]\([^()]*\)|./gs;

/** Parses an option that is a list of globs, such as `a,*.{b,c}`, and can be repeated. */
export function globs(text: string, previous: string[] = []): string[] {
  const found = [''];
  for (const [part] of text.matchAll(PART_OF_GLOB))
    if (part === ',') found.push('');
    else found.push(`${found.pop()}${part}`);
  return [...previous, ...found.map((glob) => glob.trim())];
}

/** Returns the option for the account of things, such as `transfers`. */
export function accountOption(of: string) {
  return ['--account <account>', `the account of the ${of}`, accountName, DEFAULT_ACCOUNT] as const;
}

export function accountName(text: string): string {
  const { success, error } = requestedAccount.safeParse(text);
  if (!success) throw new InvalidArgumentError(`It ${error.issues[0]?.message}.`);
  return text;
}

export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (!/^\d+$/.test(text) || number < min || number > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return number;
  };
}

/** Parses an option that can be repeated: `key=value`. */
export function keyValue(
  text: string,
  previous: Record<string, string> = {},
): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('It must be KEY=VALUE.');
  const key = text.slice(0, at);
  if (Object.hasOwn(previous, key)) throw new InvalidArgumentError('Each key must be given once.');
  return { ...previous, [key]: text.slice(at + 1) };
}
