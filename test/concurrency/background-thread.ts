import { createFilter } from '../../src/adapters/files/globs.ts';

/** A program that uses a thread and does not close it. */
console.log(await createFilter({ pattern: '{a,b}*', exclude: [] })(['a1', 'c1']));
