import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { fieldError } from '../../domain/errors.ts';
import { note } from './output.ts';
import { terminal } from './terminal.ts';

/** The options that give a secret, as the user gives them. */
export interface SecretOptions {
  secret?: string;
  secretFile?: string;
}

/** Adds the options that give the secret of a webhook. */
export function withSecret(command: Command, meaning: string): Command {
  return command
    .option('--secret-file <file>', `a file with ${meaning}; - reads stdin`)
    .addOption(
      new Option(
        '--secret <secret>',
        'the secret itself, which the list of processes shows',
      ).conflicts('secretFile'),
    );
}

/** Returns the secret without the line break at the end of its file; undefined if none is given. */
export async function readSecret({
  secret,
  secretFile,
}: SecretOptions): Promise<string | undefined> {
  if (secret !== undefined)
    note('--secret is visible in the list of processes: use --secret-file for a real secret');
  if (secretFile === undefined) return secret;
  const content =
    secretFile === '-' ? await text(terminal().stdin()) : await readFile(secretFile, 'utf8');
  const read = content.replace(/\r?\n$/, '');
  if (read === '') throw fieldError('--secret-file', 'must name a file that has a secret');
  return read;
}
