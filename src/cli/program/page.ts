import type { Command } from 'commander';
import { DEFAULT_PAGE, LONGEST_PAGE } from '../../contract/pages.ts';
import { note } from './output.ts';

/** The options that choose the page of a list, as the user gives them. */
export interface PageOptions {
  limit: string;
  offset: string;
}

/** Adds the options that choose the page of a list. */
export function withPage(command: Command): Command {
  return command
    .option('--limit <number>', `up to ${LONGEST_PAGE}`, String(DEFAULT_PAGE))
    .option('--offset <number>', 'how many to skip', '0');
}

/** Says which results were shown, and how to see more. `of` says of how many. */
export function noteMore(
  { limit, offset }: { limit: number; offset: number },
  shown: number,
  of?: { total: number; isExact?: boolean | undefined },
): void {
  const total = of ? ` of ${of.total}${of.isExact === false ? ' or more' : ''}` : '';
  note(`${offset + 1} to ${offset + shown}${total}; --offset ${offset + limit} shows more`);
}
