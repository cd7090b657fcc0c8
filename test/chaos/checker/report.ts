import type { CheckResult } from '../evidence.ts';

/** Findings to list for one check. Further ones are only counted. */
const LISTED = 100;

/** Collects the results of the checks. */
export interface Report {
  finding(check: string, subject: string, detail: string): void;
  /** Adds to a count of compared things, not of things found wrong. */
  count(figure: string, by?: number): void;
  figure(name: string): number;
  /** Adds a finding if a check compared none of the `available` things in the evidence. */
  expectSome(check: string, figure: string, available: number): void;
  result(): CheckResult;
}

export function createReport(): Report {
  const findings: CheckResult['findings'] = [];
  const figures: Record<string, number> = {};
  const listed = new Map<string, number>();

  const report: Report = {
    finding(check, subject, detail) {
      const before = listed.get(check) ?? 0;
      listed.set(check, before + 1);
      if (before < LISTED) findings.push({ check, subject, detail });
    },
    count(figure, by = 1) {
      figures[figure] = (figures[figure] ?? 0) + by;
    },
    figure: (name) => figures[name] ?? 0,
    expectSome(check, figure, available) {
      report.count(figure, 0);
      if (available === 0 || report.figure(figure) > 0) return;
      report.finding(
        check,
        figure,
        `the check compared nothing, and the evidence has ${available} for it`,
      );
    },
    result() {
      const left = [...listed].filter(([, found]) => found > LISTED);
      const further = left.map(([check, found]) => ({
        check,
        subject: 'further findings',
        detail: `${found - LISTED} are not listed`,
      }));
      return { findings: [...findings, ...further], figures };
    },
  };
  return report;
}
