import { setImmediate as nextTurn } from 'node:timers/promises';
import { createContext, Script } from 'node:vm';
import picomatch from 'picomatch';
import type { BatchFolder } from '../../domain/batches/batch.ts';

/**
 * A glob with many stars can take years for a name, and picomatch 4.0.7 does not end for some globs
 * with four backslashes in a row. Time to compile the globs, and for the names of one slice.
 */
const ENDS_WITHIN_MS = 500;
/**
 * Names that take some ten milliseconds of CPU time. A folder of any size must pass on a busy
 * machine, and the process must do other work meanwhile.
 */
const SLICE = 10_000;

/** A script can be stopped at any place, a function call cannot. */
const COMPILE = new Script('globs.map((glob) => matcher(glob))');
const FILTER = new Script(
  'paths.map((path) => passes(wanted, path) && !unwanted.some((glob) => passes(glob, path)))',
);
const realm = createContext({ matcher, passes });

/** Thrown if the globs take too long for the names of a folder. */
export class GlobTooSlow extends Error {
  override readonly name = 'GlobTooSlow';
}

/** Returns which of these paths a batch takes. Throws GlobTooSlow. */
export type TakesPaths = (paths: string[]) => Promise<boolean[]>;

/**
 * Creates the filter of a batch. A glob with a slash is compared with the path, any other with the
 * last segment. A name may start with a dot: a file must not be left out by surprise.
 */
export function createFilter({
  pattern,
  exclude,
}: Pick<BatchFolder, 'pattern' | 'exclude'>): TakesPaths {
  let compiled: Matcher[] | null = null;

  return async (paths) => {
    compiled ??= inTime<Matcher[]>(COMPILE, { globs: [pattern, ...exclude] });
    const [wanted, ...unwanted] = compiled;
    const taken: boolean[] = [];
    for (let from = 0; from < paths.length; from += SLICE) {
      if (from > 0) await nextTurn();
      const slice = { paths: paths.slice(from, from + SLICE), wanted, unwanted };
      taken.push(...inTime<boolean[]>(FILTER, slice));
    }
    return taken;
  };
}

/** Runs a script that returns an array. Throws GlobTooSlow. */
function inTime<Result extends unknown[]>(script: Script, variables: object): Result {
  try {
    Object.assign(realm, variables);
    return Array.from(script.runInContext(realm, { timeout: ENDS_WITHIN_MS })) as Result;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    throw new GlobTooSlow('The pattern takes too long: use fewer stars or backslashes', {
      cause: error,
    });
  }
}

interface Matcher {
  regexp: RegExp;
  ofPath: boolean;
}

function matcher(glob: string): Matcher {
  return { regexp: picomatch.makeRe(glob, { dot: true }), ofPath: glob.includes('/') };
}

function passes({ regexp, ofPath }: Matcher, path: string): boolean {
  return regexp.test(ofPath ? path : path.slice(path.lastIndexOf('/') + 1));
}
