import { readFileSync, writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** What the tests of one file did. */
interface FileResult {
  passed: number;
  /** Errors by test. */
  failures: Record<string, string>;
  /** A line for each skipped test. */
  skipped: string[];
}

/** Results by file. What fails outside every file has the name ''. */
type Results = Record<string, FileResult>;

/**
 * Lists every skipped test with its reason, and every failed test. The last line of the run is
 * `N passed, N failed, N skipped`. A suite that fails outside its tests (at import, in a hook)
 * counts as one failure, and so does an unhandled error. A run with an exit code other than 0 shows
 * at least one failure.
 *
 * With the path of a file, a run also leaves its results there. A run that finds results there ran
 * some of the files again: its results replace theirs, and the summary counts all.
 *
 * Tests with one of the `leftOut` tags belong to another run, and are not counted.
 */
export function summaryReporter(path: string | undefined, leftOut: string[]): Reporter {
  const earlier = path === undefined ? {} : read(path);
  let results: Results = {};

  return {
    onInit() {
      // Prints on exit: servers stop after the last test is reported, and may fail to stop.
      process.once('exit', (code) => {
        const all = Object.values(results);
        const failures = all.flatMap((file) => Object.entries(file.failures));
        const skipped = all.flatMap((file) => file.skipped);
        const passed = all.reduce((sum, file) => sum + file.passed, 0);
        printList('Skipped', skipped);
        const flaky = mended(earlier, results);
        printList('Failed at first, passed when its file ran again alone', flaky.map(toLine));
        printList('Failed', failures.map(toLine));
        const failed = code === 0 ? failures.length : Math.max(failures.length, 1);
        console.log(`\n${passed} passed, ${failed} failed, ${skipped.length} skipped`);
      });
    },
    onTestRunEnd(modules, unhandledErrors) {
      results = { ...earlier };
      for (const module of modules) results[module.relativeModuleId] = resultOf(module, leftOut);
      if (unhandledErrors.length > 0)
        results[''] = {
          passed: 0,
          failures: Object.fromEntries(
            unhandledErrors.map((error, n) => [`outside of every test, ${n + 1}`, error.message]),
          ),
          skipped: [],
        };
      if (path !== undefined) writeFileSync(path, JSON.stringify(results));
      if (Object.values(results).some(hasFailed)) process.exitCode = 1;
    },
  };
}

function read(path: string): Results {
  const text = readFileSync(path, 'utf8');
  return text === '' ? {} : JSON.parse(text);
}

/** The files that did not pass, by the results that a run left at a path. */
export function failedFiles(path: string): string[] {
  const results = Object.entries(read(path));
  return results.flatMap(([file, result]) => (file !== '' && hasFailed(result) ? [file] : []));
}

const hasFailed = (file: FileResult): boolean => Object.keys(file.failures).length > 0;

function mended(earlier: Results, results: Results): [string, string][] {
  return Object.entries(earlier).flatMap(([file, { failures }]) =>
    Object.entries(failures).filter(([test]) => results[file]?.failures[test] === undefined),
  );
}

function resultOf(module: TestModule, leftOut: string[]): FileResult {
  const nameOf = (test: { fullName: string }) => `${module.relativeModuleId} > ${test.fullName}`;
  const result: FileResult = { passed: 0, failures: {}, skipped: [] };
  for (const part of [module, ...module.children.allSuites()]) {
    const [error] = part.errors();
    if (error)
      result.failures[part.type === 'module' ? part.relativeModuleId : nameOf(part)] =
        error.message;
  }
  for (const test of module.children.allTests()) {
    if (test.tags.some((tag) => leftOut.includes(tag))) continue;
    const outcome = test.result();
    if (outcome.state === 'passed') result.passed += 1;
    else if (outcome.state === 'failed')
      result.failures[nameOf(test)] = outcome.errors[0]?.message ?? '';
    else result.skipped.push(`${nameOf(test)}: ${reason(outcome, test.options.mode)}`);
  }
  return result;
}

function reason(result: { state: string; note?: string | undefined }, mode: string): string {
  if (result.state === 'pending') return 'the run ended before it';
  return result.note ?? (mode === 'run' ? 'its suite failed' : `marked as ${mode}`);
}

function printList(title: string, lines: string[]): void {
  if (lines.length > 0) console.log(`\n${title}:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

const toLine = ([test, error]: [string, string]): string =>
  `${test}: ${error.split('\n')[0]?.slice(0, 300)}`;
