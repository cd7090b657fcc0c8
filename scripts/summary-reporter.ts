import type { Reporter, TestModule, TestSuite } from 'vitest/node';

/**
 * Lists every skipped test with its reason. The last line of the run is
 * `N passed, N failed, N skipped`. A suite that fails outside its tests (at import, in a hook)
 * counts as one failure, and so does an unhandled error. A run with an exit code other than 0 shows
 * at least one failure.
 */
export function summaryReporter(): Reporter {
  let passed = 0;
  let failed = 0;
  let skipped: string[] = [];

  function count(module: TestModule): void {
    failed += [module, ...module.children.allSuites()].filter(isBroken).length;
    for (const test of module.children.allTests()) {
      const result = test.result();
      if (result.state === 'passed') passed += 1;
      else if (result.state === 'failed') failed += 1;
      else
        skipped.push(
          `${module.relativeModuleId} > ${test.fullName}: ${reason(result, test.options.mode)}`,
        );
    }
  }

  return {
    onInit() {
      // Prints on exit: servers stop after the last test is reported, and may fail to stop.
      process.once('exit', (code) => {
        if (skipped.length > 0)
          console.log(`\nSkipped:\n${skipped.map((line) => `  ${line}`).join('\n')}`);
        const failures = code === 0 ? failed : Math.max(failed, 1);
        console.log(`\n${passed} passed, ${failures} failed, ${skipped.length} skipped`);
      });
    },
    onTestRunEnd(modules, unhandledErrors) {
      passed = 0;
      failed = unhandledErrors.length;
      skipped = [];
      for (const module of modules) count(module);
      if (failed > 0) process.exitCode = 1;
    },
  };
}

const isBroken = (suite: TestModule | TestSuite): boolean => suite.errors().length > 0;

function reason(result: { state: string; note?: string | undefined }, mode: string): string {
  if (result.state === 'pending') return 'the run ended before it';
  return result.note ?? (mode === 'run' ? 'its suite failed' : `marked as ${mode}`);
}
