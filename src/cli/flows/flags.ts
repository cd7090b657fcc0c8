import type { Command } from 'commander';
import { ACCOUNT_OPTION } from '../transfers/flags.ts';

/** Adds the options that all commands for flows have. */
export function withCommon(command: Command): Command {
  return command
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers');
}
