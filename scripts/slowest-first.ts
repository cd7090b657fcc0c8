import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Folders whose test files take longest: they start many servers, or wait for time-outs. */
const SLOW = ['transfers', 'console', 'cli', 'adapters', 'http/administration', 'processes'];

/** Starts the slow test files first, so that none of them runs on alone at the end. */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return SLOW.flatMap(below).concat(sorted.filter((file) => !SLOW.some(isBelow(file))));

    function below(folder: string): TestSpecification[] {
      return sorted.filter((file) => isBelow(file)(folder));
    }
  }
}

const isBelow =
  ({ moduleId }: TestSpecification) =>
  (folder: string): boolean =>
    moduleId.includes(`/test/${folder}/`);
