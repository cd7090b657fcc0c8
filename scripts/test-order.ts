import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const TESTS = 'test/';

/**
 * Folders and files in the order of their start. The first one downloads the servers and browsers
 * that are not there yet. Tests of HTTP and projections hardly need any. Then come those that take
 * longest: they start many servers, or wait for time-outs.
 */
const ORDER = [
  'support/programs/provided.test.ts',
  'http/',
  'projections/',
  'transfers/',
  'service.test.ts',
  'docs/',
  'cli/',
  'console/',
  'processes/',
  'adapters/',
  'dev/',
  'chaos/',
  'commands/',
  'start-up.test.ts',
  'support/',
];

/** Lets few test files wait for a download, and no slow one run alone at the end. */
export class TestOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const path = relative(this.ctx.config.root, moduleId);
      const place = ORDER.findIndex((first) => path.startsWith(TESTS + first));
      return place === -1 ? ORDER.length : place;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
