import type { Reporter, TestModule, TestSuite } from 'vitest/node';

/**
 * Names every skipped test with its reason and makes `N passed, N failed, N skipped` the last line of the run.
 * A suite that breaks outside its tests (at import, in a hook) and an unhandled error count as one failure each,
 * and a run that ends with another exit code than 0 never reads as one without failures.
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
      else skipped.push(`${module.relativeModuleId} > ${test.fullName}: ${reason(result, test.options.mode)}`);
    }
  }

  return {
    onInit() {
      // Printed on exit, because servers are stopped and may fail to stop after the last test is reported.
      process.once('exit', (code) => {
        if (skipped.length > 0) console.log(`\nSkipped:\n${skipped.map((line) => `  ${line}`).join('\n')}`);
        console.log(`\n${passed} passed, ${code === 0 ? failed : Math.max(failed, 1)} failed, ${skipped.length} skipped`);
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
