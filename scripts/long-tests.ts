import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** Files of which `npm test` loads nothing. */
export const LONG_FILES = 'test/**/*.long.test.ts';

/** The tag of single tests that `npm test` leaves out, in files that it runs. */
export const LONG_TAG = 'long';

/** The files with long tests among others. `npm run test:long` runs them whole. */
export function filesWithLongTests(): string[] {
  return globSync('test/**/*.test.ts', { cwd: ROOT })
    .filter((file) => readFileSync(join(ROOT, file), 'utf8').includes("/long.ts'"))
    .toSorted();
}
