import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { addressOf } from '../../adapters/event-store/eventstoredb/client-url.ts';
import { openStore } from '../../adapters/event-store/open-store.ts';
import type { EventStore } from '../../adapters/event-store/port.ts';
import { createPostgresLog } from '../../adapters/event-store/postgres/log.ts';
import { parseConfig } from '../../config.ts';
import { DomainError } from '../../domain/errors.ts';
import type { Installation } from '../../installation.ts';
import { copyLog } from '../../processes/log-copy/copy-log.ts';
import { followCopy } from '../../processes/log-copy/follow-copy.ts';
import { recordAccess } from '../program/access.ts';
import { note, print, printJson } from '../program/output.ts';
import { createProgressBar } from '../program/progress.ts';
import { withInstallation } from '../program/session.ts';
import { terminal } from '../program/terminal.ts';

const EMBEDDED = 'embedded';

export function addLogCopyCommand(log: Command): void {
  log
    .command('copy')
    .description('copy the log to the other engine; repeat it to continue, or to copy later events')
    .requiredOption('--to <url>', `the URL of an EventStoreDB, or "${EMBEDDED}" for Postgres`)
    .option('--switch', 'let the tables follow the copy; stop all processes first')
    .option('--json', 'one JSON document')
    .action(({ to, switch: follow, json }: { to: string; switch?: boolean; json?: boolean }) =>
      withInstallation(
        async (installation) => {
          const copy = await openOther(installation, to);
          // Before the locks: nothing may be appended to the log while the tables change over.
          const parameters = { to: to === EMBEDDED ? to : addressOf(to) };
          const data = { export: 'log', parameters } as const;
          await recordAccess(installation, { type: 'access.exported', data }, null);
          const bar = json ? null : createProgressBar();
          const started = performance.now();
          const run = () =>
            copyLog(installation.store, copy, (read, share) => {
              const seconds = Math.max((performance.now() - started) / 1_000, 0.001);
              bar?.show(share, `${read} events  ${Math.round(read / seconds)} events/s`);
            }).finally(() => bar?.clear());
          const wait = (ms: number) => {
            note(`Waiting ${Math.ceil(ms / 1_000)} s for appends that are still under way`);
            return sleep(ms);
          };
          const copied = await (follow ? followCopy(installation, copy, run, wait) : run()).finally(
            () => copy.close(),
          );
          const { events, appended, root } = copied;
          const root_hash = Buffer.from(root).toString('hex');
          if (json) return printJson({ events, appended, root_hash, switched: follow ?? false });
          await print(
            `${events} events are in both logs, ${appended} of them copied now\n` +
              `Both trees have the root ${root_hash}`,
          );
          if (follow)
            note(
              `Now start all processes ${to === EMBEDDED ? 'without' : 'with this'} EVENTSTORE_URL`,
            );
        },
        { runsLong: true, env: settingsOfLog() },
      ),
    );
}

/**
 * Returns the settings of the installation. Without EVENTSTORE_URL, its log is in Postgres, and the
 * sign-in to an event store is that of the copy.
 */
function settingsOfLog(): Record<string, string | undefined> {
  const { env } = terminal();
  if (env.EVENTSTORE_URL?.trim()) return env;
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith('WAYBILL_EVENTSTORE_')),
  );
}

/** Opens the engine that the installation does not use. */
async function openOther({ config, sql }: Installation, to: string): Promise<EventStore> {
  const isEmbedded = config.eventStore === null;
  // Without a URL, the settings would name this log again.
  if (to === '' || (to === EMBEDDED) === isEmbedded)
    throw new DomainError(
      'validation_failed',
      isEmbedded
        ? 'The log is in Postgres already: --to takes the URL of an EventStoreDB'
        : `The log is in an EventStoreDB already: copy it with --to ${EMBEDDED}`,
    );
  if (to !== EMBEDDED && !/^esdb(\+discover)?:\/\/./.test(to))
    throw new DomainError(
      'validation_failed',
      `--to takes the URL of an EventStoreDB, such as esdb://HOST:PORT, or ${EMBEDDED}`,
    );
  if (to === EMBEDDED) return createPostgresLog({ sql, prefix: config.streamPrefix, isCopy: true });
  return openStore(parseConfig({ ...terminal().env, EVENTSTORE_URL: to }), sql);
}
