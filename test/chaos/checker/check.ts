import type { CheckResult } from '../evidence.ts';
import type { Context } from './context.ts';
import { connect } from './database.ts';
import { type Evidence, readEvidence } from './evidence-files.ts';
import { checkFiles } from './files/check.ts';
import { createPlaces } from './files/places.ts';
import { readContents } from './log/contents.ts';
import { readEventStoreDb } from './log/eventstoredb.ts';
import { readPostgresLog } from './log/postgres.ts';
import { checkProcesses, checkWork } from './processes.ts';
import { createReport, type Report } from './report.ts';
import { checkAccounts } from './requests/accounts.ts';
import { linkOperations, type Operation } from './requests/operations.ts';
import { checkOutcomes } from './requests/outcomes.ts';
import { checkStatuses } from './requests/statuses.ts';
import { checkVersions } from './requests/versions.ts';
import { checkAnswers } from './shown/answers.ts';
import { checkTables } from './shown/tables.ts';
import { checkWebhooks } from './webhooks/check.ts';

/**
 * Checks a chaos run by its evidence, the log, the destinations, the tables and the API. The
 * checker shares no code with the service: it knows the documented formats and the tables. Throws
 * if the evidence or the log cannot be read. A check that fails otherwise is a finding.
 *
 * `only`: the groups of checks to run besides those of the log, all by default: processes,
 * transfers, read, work, webhooks, api, files.
 */
export async function check(folder: string, only?: readonly string[]): Promise<CheckResult> {
  const report = createReport();
  const evidence = await readEvidence(folder, report);
  const sql = connect(evidence.run.databaseUrl);
  try {
    const log = await readContents(eventsOf(evidence, sql, report), report);
    if (report.figure('events') === 0) report.finding('log', 'events', 'the log is empty');
    const context: Context = { evidence, log, sql, report };
    const places = createPlaces(evidence.run.endpoints, log.endpoints);
    let links = new Map<string, Operation>();

    await run('processes', () => checkProcesses(context));
    await run('transfers', async () => {
      links = await linkOperations(context, places);
      checkOutcomes(context, links, places);
      checkVersions(context, places);
    });
    await run('read', () => checkTables(context));
    await run('work', () => checkWork(context));
    await run('webhooks', () => checkWebhooks(context));
    await run('api', () => {
      checkStatuses(context);
      checkAccounts(context);
      return checkAnswers(context);
    });
    await run('files', () => checkFiles(context, links, places));
  } finally {
    await sql.end({ timeout: 5 });
  }
  return report.result();

  async function run(name: string, work: () => void | Promise<void>): Promise<void> {
    if (only && !only.includes(name)) return;
    const began = performance.now();
    try {
      await work();
    } catch (error) {
      report.finding(
        name,
        'the check itself',
        `it failed: ${error instanceof Error ? error.stack : error}`,
      );
    }
    report.count(`${name}_ms`, Math.round(performance.now() - began));
  }
}

function eventsOf({ run }: Evidence, sql: Context['sql'], report: Report) {
  const { log, streamPrefix } = run;
  return log.engine === 'postgres'
    ? readPostgresLog(sql, streamPrefix, report)
    : readEventStoreDb(log.url, streamPrefix, report);
}
