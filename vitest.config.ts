import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import { filesWithLongTests, LONG_FILES, LONG_TAG } from './scripts/long-tests.ts';
import { summaryReporter } from './scripts/summary-reporter.ts';
import { TestOrder } from './scripts/test-order.ts';

// As in bin/waybill. Test files start hundreds of processes.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/node');

const GLOBAL_SETUP = 'test/support/run/global-setup.ts';

export default defineConfig(({ mode }) => ({
  test: {
    include: mode === 'long' ? [LONG_FILES, ...filesWithLongTests()] : ['test/**/*.test.ts'],
    exclude: mode === 'long' ? configDefaults.exclude : [...configDefaults.exclude, LONG_FILES],
    tags: [{ name: LONG_TAG, description: 'Only `npm run test:long` runs it.' }],
    ...(mode !== 'long' && { tagsFilter: [`!${LONG_TAG}`] }),
    globalSetup: existsSync(GLOBAL_SETUP) ? GLOBAL_SETUP : [],
    reporters: [
      'default',
      summaryReporter(process.env.TEST_RESULTS, mode === 'long' ? [] : [LONG_TAG]),
    ],
    // Test files start servers and wait for them more than they compute. The time-outs below leave
    // room for a machine that other programs keep busy. Long tests fail earlier: what they wait for
    // makes no progress.
    pool: 'forks',
    // The files of a worker share its modules: loading them takes a second of CPU time.
    isolate: false,
    sequence: { sequencer: TestOrder },
    // They wait for leases and time-outs, too: two files for each core leave it idle for a third of
    // the time, and three cost CPU time without an end that comes sooner.
    maxWorkers: Math.ceil(2.5 * availableParallelism()),
    // Tests move files through buffers outside of the heap. By default, every 64 MiB of them is the
    // reason to look through the whole heap, which took a fifth of the CPU time.
    execArgv: ['--external-memory-accounted-in-global-limit', '--initial-old-space-size=512'],
    testTimeout: mode === 'long' ? 120 * 60_000 : 90_000,
    hookTimeout: 120_000,
    teardownTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
  },
}));
