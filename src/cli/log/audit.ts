import { type Command, Option } from 'commander';
import {
  type AuditItem,
  auditQuery,
  auditToCsv,
  toAuditFilter,
  toAuditItem,
} from '../../contract/audit.ts';
import { exportQuery, toAuditEvent } from '../../contract/events.ts';
import { COUNTED_TO } from '../../contract/pages.ts';
import { AUDIT_KINDS } from '../../domain/audit.ts';
import type { Installation } from '../../installation.ts';
import { eachAuditEvent, listAuditEvents } from '../../projections/audit/queries.ts';
import { readLogFrom } from '../../projections/read-log.ts';
import { given, recordAccess } from '../program/access.ts';
import { EXIT } from '../program/exit-codes.ts';
import { type Columns, note, printJson, printTable, write } from '../program/output.ts';
import { noteMore, withPage } from '../program/page.ts';
import { parseRequest } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { withInstallation } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';
import { addVerifyCommand } from './verify.ts';

const COLUMNS: Columns<AuditItem> = {
  TIME: ({ occurred_at }) => occurred_at,
  ACTOR: ({ actor, actor_name }) => actor_name ?? actor,
  ADDRESS: ({ client_address }) => client_address,
  EVENT: ({ title }) => title,
  SUBJECT: ({ subject }) => subject.id,
  NAME: ({ subject }) => subject.name,
};

export function addAuditCommands(program: Command): void {
  const audit = program
    .command('audit')
    .description('list, export and verify the log, for auditors');

  withPage(audit.command('list').description('list what people and keys did, newest first'))
    .option('--kind <kind>', `only this kind of subject: ${Object.keys(AUDIT_KINDS).join(', ')}`)
    .option('--type <type>', 'only this type of event, such as endpoint.paused')
    .option('--actor <name>', 'only this actor: a key, a user or a person')
    .option('--subject <name>', 'only the subject with this id, name or URL')
    .option('--from <date>', 'at or after this date or time')
    .option('--to <date>', 'at or before this date or time')
    .addOption(new Option('--csv', 'all matches as CSV').conflicts(['json', 'limit', 'offset']))
    .option('--json', 'one JSON document, as the API answers')
    .action((options: ListOptions) =>
      withInstallation((installation) => list(installation, options), { runsLong: options.csv }),
    );

  audit
    .command('export')
    .description('print all stored events, one JSON line each, oldest first')
    .option('--from <position>', 'only events after this position')
    .option('--stream <name>', 'only events of this stream, such as transfer-txr_...')
    .action((options: ExportOptions) =>
      withInstallation((installation) => exportLog(installation, options), {
        opensChangedLog: true,
        runsLong: true,
      }),
    );

  addVerifyCommand(audit);
}

interface ExportOptions {
  from?: string;
  stream?: string;
}

/**
 * Prints the log. Only an exit code of 0 says that it is whole: a reader may close its end earlier.
 * Writes nothing into a log that was changed, and says that it was.
 */
async function exportLog(installation: Installation, options: ExportOptions): Promise<void> {
  const { from, stream } = parseRequest(exportQuery, options, 'The export');
  const { store, changed } = installation;
  failUntilVerdict();
  const data = { export: 'log', parameters: given({ from, stream }) } as const;
  const event = { type: 'access.exported', data } as const;
  const record = changed === null ? await recordAccess(installation, event, null) : null;
  // As in the route: the head of a former leader of an EventStoreDB may be older.
  const until = record?.position ?? (await store.head());
  const slice = { from: from ?? null, until, stream, holds: record?.id };
  for await (const { events } of readLogFrom(store, slice))
    for (const event of events) if (event.id !== record?.id) await printJson(toAuditEvent(event));
  if (changed === null) terminal().exitCode = EXIT.done;
  else
    note(
      `${changed}\nThe export has the events that are left. It is not recorded: Waybill writes ` +
        'nothing into such a log. `waybill audit verify` names every fault',
    );
}

interface ListOptions extends Record<string, unknown> {
  from?: string;
  to?: string;
  csv?: boolean;
  json?: boolean;
}

async function list(
  installation: Installation,
  { from, to, csv, json, ...options }: ListOptions,
): Promise<void> {
  const { sql } = installation;
  const query = parseRequest(
    auditQuery,
    { ...options, from_date: from, to_date: to },
    'The filter',
  );
  const { limit, offset, ...filters } = query;
  const filter = toAuditFilter(filters);
  const { events, total, hasMore } = await fromReadModels(
    installation,
    // That of the catalog has the names.
    ['audit', 'catalog'],
    () => listAuditEvents(sql, filter, { limit, offset, countTo: COUNTED_TO }),
    (found) => found.total,
  );
  if (csv) {
    const data = { export: 'audit_log', parameters: given(filters) } as const;
    await recordAccess(installation, { type: 'access.exported', data }, null);
    for await (const piece of auditToCsv(eachAuditEvent(sql, filter))) await write(piece);
    return;
  }
  const data = events.map(toAuditItem);
  if (json) return printJson({ data, pagination: { total, limit, offset, has_more: hasMore } });
  await printTable(COLUMNS, data, 'No events match');
  if (hasMore) noteMore({ limit, offset }, data.length);
}
