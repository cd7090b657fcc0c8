/*
 * The module of the glob thread.
 */
import { createContext, Script } from 'node:vm';
import { answerCalls } from '../../concurrency/thread.ts';
import { compileGlobs, type TakesPath } from './glob-matcher.ts';

/**
 * A glob with many stars can take years for a name, and picomatch 4.0.7 does not end for some globs
 * with four backslashes in a row. Time to compile the globs, and for the names of one call. A folder
 * of any size must pass on a busy machine.
 */
const ENDS_WITHIN_MS = 500;
/** Globs that stay compiled, by the batches that have them. */
const KEPT = 100;

export type GlobFunctions = {
  /** Returns which paths a batch takes. Null if that takes too long. */
  take(pattern: string, exclude: readonly string[], paths: string[]): boolean[] | null;
};

/** A script can be stopped at any place, a function call cannot. */
const COMPILE = new Script('compileGlobs(pattern, exclude)');
const FILTER = new Script('paths.map((path) => takes(path))');
const realm = createContext({ compileGlobs });

const compiled = new Map<string, TakesPath | null>();

function compile(pattern: string, exclude: readonly string[]): TakesPath | null {
  const key = JSON.stringify([pattern, exclude]);
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const takes = inTime<TakesPath>(COMPILE, { pattern, exclude });
  const [oldest] = compiled.keys();
  if (compiled.size >= KEPT && oldest !== undefined) compiled.delete(oldest);
  compiled.set(key, takes);
  return takes;
}

/** Runs a script. Returns null if it takes too long. */
function inTime<Result>(script: Script, variables: object): Result | null {
  try {
    Object.assign(realm, variables);
    return script.runInContext(realm, { timeout: ENDS_WITHIN_MS }) as Result;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return null;
    throw error;
  }
}

answerCalls<GlobFunctions>(
  {
    take(_, pattern, exclude, paths) {
      const takes = compile(pattern, exclude);
      return takes && inTime<boolean[]>(FILTER, { takes, paths });
    },
  },
  { gather: false, describe: (error) => error },
);
