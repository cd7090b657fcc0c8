import type { Sql } from './database.ts';
import type { Evidence } from './evidence-files.ts';
import type { LogContents } from './log/contents.ts';
import type { Report } from './report.ts';

/** The input of every check. */
export interface Context {
  evidence: Evidence;
  log: LogContents;
  sql: Sql;
  report: Report;
}
