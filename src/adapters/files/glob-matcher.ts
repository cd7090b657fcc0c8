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

/** `.` and `..` as the name of a folder or file. */
const DOTS = /(?<=^|\/)\.{1,2}(?=\/|$)/g;

// A name may have line breaks, and objects of S3 may be called `.` and `..`. These names are
// rejected later. Globs must not leave them out: a folder would look complete without them.
function compile(glob: string): TakesPath {
  const regexp = picomatch.makeRe(glob, { dot: true, flags: 's' });
  const ofPath = glob.includes('/');
  return (path) => {
    const compared = ofPath ? path : path.slice(path.lastIndexOf('/') + 1);
    return regexp.test(compared.replace(DOTS, '-'));
  };
}
