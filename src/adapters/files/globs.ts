import { setImmediate as nextTurn } from 'node:timers/promises';
import { createThread } from '../../concurrency/thread.ts';
import type { BatchFolder } from '../../domain/batches/batch.ts';
import type { GlobFunctions } from './glob-functions.ts';
import { compileGlobs } from './glob-matcher.ts';

/**
 * Names that take some ten milliseconds of CPU time. The process, or the thread, must do other work
 * meanwhile.
 */
const SLICE = 10_000;
/**
 * A glob of plain characters with one star at most. It takes as long as the name is long. All other globs
 * are compared in a thread, one after the other: a slow one must not keep the process from its work
 * for other accounts.
 */
const SIMPLE = /^[\p{L}\p{N}\-_. /]*\*?[\p{L}\p{N}\-_. /]*$/u;

/** Thrown if the globs take too long for the names of a folder. */
export class GlobTooSlow extends Error {
  override readonly name = 'GlobTooSlow';
}

const thread = createThread<GlobFunctions>(new URL('./glob-functions.ts', import.meta.url), {
  name: 'globs',
  gather: false,
  background: true,
  lost: (cause) => new Error(`The glob thread failed: ${cause.message}`, { cause }),
  revive: (error) => error as Error,
});

/** Returns which of these paths a batch takes. Throws GlobTooSlow. */
export type TakesPaths = (paths: string[]) => Promise<boolean[]>;

/** Creates the filter of a batch. `compileGlobs` says what it takes. */
export function createFilter({
  pattern,
  exclude,
}: Pick<BatchFolder, 'pattern' | 'exclude'>): TakesPaths {
  const take = [pattern, ...exclude].every((glob) => SIMPLE.test(glob)) ? takeHere : takeInThread;

  return async (paths) => {
    const taken: boolean[] = [];
    for (let from = 0; from < paths.length; from += SLICE) {
      if (from > 0) await nextTurn();
      taken.push(...(await take(pattern, exclude, paths.slice(from, from + SLICE))));
    }
    return taken;
  };
}

async function takeHere(
  pattern: string,
  exclude: readonly string[],
  paths: string[],
): Promise<boolean[]> {
  return paths.map(compileGlobs(pattern, exclude));
}

async function takeInThread(
  pattern: string,
  exclude: readonly string[],
  paths: string[],
): Promise<boolean[]> {
  const taken = await thread.run().call('take', [pattern, exclude, paths]);
  if (taken === null)
    throw new GlobTooSlow('The pattern takes too long: use fewer stars or backslashes');
  return taken;
}
