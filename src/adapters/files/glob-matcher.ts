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

/** The last dot of a segment `.` or `..`. */
const LAST_DOT = /(?<=(?:^|\/)\.?)\.(?=\/|$)/g;

/**
 * A star must match all names. The walk rejects those that no URI can name: if the globs left them
 * out, a folder would look complete without them. Such names have line breaks (the flag `s`), or
 * are `.` and `..`, as objects may be called. Only a glob that spells these two out matches them in
 * picomatch, so they are also compared with another sign in place of a dot.
 */
function compile(glob: string): TakesPath {
  const regexp = picomatch.makeRe(glob, { dot: true, flags: 's' });
  const ofPath = glob.includes('/');
  return (path) => {
    const compared = ofPath ? path : path.slice(path.lastIndexOf('/') + 1);
    return regexp.test(compared) || regexp.test(compared.replace(LAST_DOT, '-'));
  };
}
