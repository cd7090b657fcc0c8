/** What we use of picomatch, which has no types of its own. */
declare module 'picomatch' {
  export default picomatch;
  const picomatch: {
    makeRe(glob: string, options?: { dot?: boolean; flags?: string }): RegExp;
  };
}
