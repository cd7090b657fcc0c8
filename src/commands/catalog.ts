import { setTimeout as sleep } from 'node:timers/promises';
import type { CommandDeps } from './deps.ts';

/**
 * How long a process may decide on keys and endpoints that it has read, in milliseconds from the
 * start of that read.
 */
export const REMEMBERED_MS = 100;
/** Timers of Node.js may end early, and clocks differ a little in speed. */
const MARGIN_MS = 50;

/**
 * Resolves when no process decides on keys and endpoints from before `position`: with true, or with
 * false if the catalog does not show the event within five seconds. With the log in Postgres, each
 * append that rests on remembered keys and endpoints finds out that they have changed. An
 * EventStoreDB cannot compare, so the change waits until no process remembers them.
 */
export async function untilInEffect(
  { store, waitFor }: Pick<CommandDeps, 'store' | 'waitFor'>,
  position: bigint | null,
): Promise<boolean> {
  const shown = await waitFor('catalog', position);
  if (store.appendWith === undefined) await sleep(REMEMBERED_MS + MARGIN_MS);
  return shown;
}
