import { setImmediate as nextTurn } from 'node:timers/promises';
import { createContext, Script } from 'node:vm';
import picomatch from 'picomatch';
import type { BatchFolder } from '../../domain/batch.ts';

/** A glob with many stars can take years for a name. Time for the names of one slice. */
const MATCHED_WITHIN_MS = 500;
/**
 * Names that take some ten milliseconds of CPU time. A folder of any size must pass on a busy
 * machine, and the process must do other work meanwhile.
 */
const SLICE = 10_000;

/** A script can be stopped within a regular expression, a function call cannot. */
const FILTER = new Script(
  'paths.map((path) => passes(wanted, path) && !unwanted.some((glob) => passes(glob, path)))',
);
const realm = createContext({ passes });

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
  const wanted = matcher(pattern);
  const unwanted = exclude.map(matcher);
  function takes(paths: string[]): boolean[] {
    try {
      Object.assign(realm, { paths, wanted, unwanted });
      return Array.from(FILTER.runInContext(realm, { timeout: MATCHED_WITHIN_MS }) as boolean[]);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      throw new GlobTooSlow('The pattern takes too long: use fewer stars', { cause: error });
    }
  }

  return async (paths) => {
    const taken: boolean[] = [];
    for (let from = 0; from < paths.length; from += SLICE) {
      if (from > 0) await nextTurn();
      taken.push(...takes(paths.slice(from, from + SLICE)));
    }
    return taken;
  };
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
