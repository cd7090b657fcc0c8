import type { Command } from 'commander';
import { isOwnLog, ownLog } from '../../adapters/event-store/own-logs.ts';
import type { Installation } from '../../installation.ts';
import { rebuildOutbox } from '../../processes/webhooks/outbox.ts';
import { note, print, printJson } from '../program/output.ts';
import { withInstallation } from '../program/session.ts';

interface Json {
  json?: boolean;
}

export function addLogAdoptCommand(log: Command): void {
  log
    .command('adopt')
    .description('let this database take over a log whose own database is lost')
    .option('--json', 'one JSON document')
    .action(({ json }: Json) =>
      withInstallation((installation) => adopt(installation, json ?? false), {
        begins: true,
        adoptsLog: true,
        runsLong: true,
      }),
    );
}

/** Webhooks get no deliveries for the past: those of the lost database may have got them all. */
async function adopt(installation: Installation, json: boolean): Promise<void> {
  const { sql, store, logId } = installation;
  const adopted = store.engine !== 'postgres' && !(await isOwnLog(sql, logId));
  if (adopted) await rebuildOutbox(installation, (tx) => ownLog(tx, logId));
  if (json) return printJson({ log_id: logId, adopted });
  if (!adopted) return print(`The log ${logId} belongs to this database already`);
  await print(`This database takes over the log ${logId}`);
  note(
    'Webhooks get the events from now on; waybill webhooks replay sends earlier ones. Give the ' +
      'credentials of endpoints again. No process with another database may use this log.',
  );
}
