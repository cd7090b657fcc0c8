import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const TESTS = 'test/';

/**
 * Folders and files of tests that take longest: they start many servers, or wait for time-outs. The
 * slowest come first.
 */
const SLOW = [
  'transfers/',
  'service.test.ts',
  'docs/',
  'cli/',
  'console/',
  'processes/',
  'adapters/',
  'dev/',
  'chaos/',
  'http/',
  'projections/',
  'commands/',
  'start-up.test.ts',
  'support/',
];

/** Starts the slow test files first, so that none of them runs alone at the end. */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const path = relative(this.ctx.config.root, moduleId);
      const place = SLOW.findIndex((slow) => path.startsWith(TESTS + slow));
      return place === -1 ? SLOW.length : place;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
