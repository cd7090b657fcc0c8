import picomatch from 'picomatch';

/** Returns whether a batch takes a path. */
export type TakesPath = (path: string) => boolean;

/**
 * Compiles the globs of a batch. A glob with a slash is compared with the path, any other with the
 * last segment. A name may start with a dot: a file must not be left out by surprise.
 */
export function compileGlobs(pattern: string, exclude: readonly string[]): TakesPath {
  const takes = compile(pattern);
  const leavesOut = exclude.map(compile);
  return (path) => takes(path) && !leavesOut.some((leaves) => leaves(path));
}

function compile(glob: string): TakesPath {
  // A name may have line breaks. The walk rejects it, and does not leave it out.
  const regexp = picomatch.makeRe(glob, { dot: true, flags: 's' });
  const ofPath = glob.includes('/');
  return (path) => regexp.test(ofPath ? path : path.slice(path.lastIndexOf('/') + 1));
}
