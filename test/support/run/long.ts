import { LONG_TAG } from '../../../scripts/long-tests.ts';

/**
 * Options of a test that only `npm run test:long` runs: it shows a further case, and costs much. Pass
 * a copy to `test.concurrent`: Vitest writes into the options, and all long tests would run at once.
 */
export const LONG = Object.freeze({ tags: [LONG_TAG] });

/** Options of a case of a matrix: `npm test` runs only the cases that are `short`. */
export const longUnless = (short: boolean): { tags?: string[] } => (short ? {} : LONG);
