import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';
import { summaryReporter } from './scripts/summary-reporter.ts';

const GLOBAL_SETUP = 'test/support/global-setup.ts';
const LONG_TESTS = 'test/**/*.long.test.ts';

export default defineConfig(({ mode }) => ({
  test: {
    include: mode === 'long' ? [LONG_TESTS] : ['test/**/*.test.ts'],
    exclude: mode === 'long' ? configDefaults.exclude : [...configDefaults.exclude, LONG_TESTS],
    globalSetup: existsSync(GLOBAL_SETUP) ? GLOBAL_SETUP : [],
    reporters: ['default', summaryReporter()],
    // Test files start servers of their own and wait for them more than they compute.
    pool: 'forks',
    maxWorkers: availableParallelism(),
    testTimeout: mode === 'long' ? 30 * 60_000 : 30_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
  },
}));
