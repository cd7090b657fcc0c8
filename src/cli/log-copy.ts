import type { Command } from 'commander';
import type { EventStore } from '../adapters/event-store/port.ts';
import { parseConfig } from '../config.ts';
import { DomainError } from '../domain/errors.ts';
import { type Installation, openStore } from '../installation.ts';
import { copyLog } from '../processes/log-copy/copy-log.ts';
import { print, printJson } from './output.ts';
import { createProgressBar } from './progress.ts';
import { withInstallation } from './session.ts';

const EMBEDDED = 'embedded';

export function addLogCopyCommand(log: Command): void {
  log
    .command('copy')
    .description('copy the log to the other engine; run it again to continue, or for later events')
    .requiredOption('--to <url>', `the URL of an EventStoreDB, or "${EMBEDDED}" for Postgres`)
    .option('--json', 'one JSON document')
    .action(({ to, json }: { to: string; json?: boolean }) =>
      withInstallation(async (installation) => {
        const copy = await openOther(installation, to);
        const bar = json ? null : createProgressBar();
        const started = performance.now();
        const { events, appended, root } = await copyLog(
          installation.store,
          copy,
          (read, share) => {
            const seconds = Math.max((performance.now() - started) / 1_000, 0.001);
            bar?.show(share, `${read} events  ${Math.round(read / seconds)} events/s`);
          },
        ).finally(async () => {
          bar?.clear();
          await copy.close();
        });
        const root_hash = Buffer.from(root).toString('hex');
        if (json) return printJson({ events, appended, root_hash });
        await print(
          `${events} events are in both logs, ${appended} of them copied now\n` +
            `Both trees have the root ${root_hash}`,
        );
      }),
    );
}

/** Opens the engine that the installation does not use. */
async function openOther({ config, sql }: Installation, to: string): Promise<EventStore> {
  const isEmbedded = config.eventStore === null;
  if ((to === EMBEDDED) === isEmbedded)
    throw new DomainError(
      'validation_failed',
      isEmbedded
        ? 'The log is in Postgres already: name the URL of an EventStoreDB'
        : `The log is in an EventStoreDB: a copy goes to the embedded log, --to ${EMBEDDED}`,
    );
  if (to === EMBEDDED) return openStore({ ...config, eventStore: null }, sql);
  return openStore(parseConfig({ ...process.env, EVENTSTORE_URL: to }), sql);
}
