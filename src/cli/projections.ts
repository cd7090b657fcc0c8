import { Argument, type Command } from 'commander';
import type { ProjectionName } from '../commands/deps.ts';
import type { Installation } from '../installation.ts';
import { rebuildDispatch } from '../processes/jobs.ts';
import { rebuildOutbox } from '../processes/webhooks/outbox.ts';
import { listCheckpoints } from '../projections/checkpoint.ts';
import { PROJECTIONS } from '../projections/read-models.ts';
import { type Comparison, type RebuildProgress, rebuildProjection, verifyProjection } from '../projections/rebuild.ts';
import { EXIT } from './exit-codes.ts';
import { print, printJson, printTable, seconds } from './output.ts';
import { createProgressBar } from './progress.ts';
import { withInstallation } from './session.ts';

const NAMES = Object.keys(PROJECTIONS) as ProjectionName[];

interface Json {
  json?: boolean;
}

export function addProjectionCommands(program: Command): void {
  const projections = program.command('projections').description('the tables that are derived from the log');

  projections
    .command('list')
    .description('how far each one, and each process manager, has come')
    .option('--json', 'one JSON line each')
    .action(({ json }: Json) => withInstallation((installation) => list(installation, json)));

  projections
    .command('rebuild')
    .description('make its tables anew beside the live ones, then let them take over; nothing stops meanwhile')
    .addArgument(
      new Argument('<name>', 'dispatch: the to-do rows of the movers; outbox: where webhooks go on, after the log was exchanged').choices([
        ...NAMES,
        'dispatch',
        'outbox',
      ]),
    )
    .option('--json', 'JSON lines: progress, then the result')
    .action((name: ProjectionName | 'dispatch' | 'outbox', { json }: Json) =>
      withInstallation(async (installation) => {
        if (name === 'dispatch') return rebuildToDoRows(installation, json);
        if (name === 'outbox') return skipToEnd(installation, json);
        const { events, differences } = await withProgress(name, json, (onProgress) => rebuildProjection(installation, name, onProgress));
        if (json) return printJson({ projection: name, rebuilt: true, events, differences });
        await print(`${name} is rebuilt from ${events} events`);
        if (differences.length > 0) await print(`The old tables were wrong about: ${differences.join(', ')}`);
      }),
    );

  projections
    .command('verify')
    .description('hold the live tables against the log; exit code 1 where they differ')
    .addArgument(new Argument('[name]').choices(NAMES))
    .option('--json', 'JSON lines: progress, then the result')
    .action((name: ProjectionName | undefined, { json }: Json) =>
      withInstallation(async (installation) => {
        for (const each of name ? [name] : NAMES) {
          await report(each, await withProgress(each, json, (onProgress) => verifyProjection(installation, each, onProgress)), json);
        }
      }),
    );
}

async function list({ sql, store }: Installation, json: boolean | undefined): Promise<void> {
  const head = (await store.head()) ?? 0n;
  const rows = await listCheckpoints(sql);
  if (json) {
    for (const { name, position, updated_at } of rows) await printJson({ name, position, log_position: head, updated_at });
  } else {
    const lines = rows.map(({ name, position, updated_at }) => [name, position, head, updated_at]);
    await printTable(['NAME', 'POSITION', 'END OF THE LOG', 'MOVED AT'], lines, 'There are no projections yet');
  }
}

async function rebuildToDoRows({ sql, logId }: Installation, json: boolean | undefined): Promise<void> {
  await rebuildDispatch(sql, logId);
  if (json) await printJson({ projection: 'dispatch', rebuilt: true });
  else await print('The to-do rows are derived again from the log by the mover that runs dispatch, or the next one that starts');
}

async function skipToEnd(installation: Installation, json: boolean | undefined): Promise<void> {
  await rebuildOutbox(installation);
  if (json) await printJson({ projection: 'outbox', rebuilt: true });
  else await print('The outbox goes on at the end of the log: nothing is sent that happened before');
}

async function withProgress(
  name: ProjectionName,
  json: boolean | undefined,
  work: (onProgress: (progress: RebuildProgress) => void) => Promise<Comparison>,
): Promise<Comparison> {
  const bar = json ? null : createProgressBar();
  let lines = Promise.resolve();
  try {
    return await work((progress) => {
      if (json) lines = lines.then(() => printJson({ projection: name, ...shown(progress) }));
      bar?.show(progress.share, `${progress.events} events  ${progress.eventsPerSecond} events/s${left(progress)}`);
    });
  } finally {
    bar?.clear();
    await lines;
  }
}

function shown({ events, share, eventsPerSecond, secondsLeft }: RebuildProgress) {
  return { events, share, events_per_second: eventsPerSecond, seconds_left: secondsLeft };
}

function left({ secondsLeft }: RebuildProgress): string {
  return secondsLeft === null ? '' : `  ${seconds(secondsLeft)} left`;
}

async function report(name: ProjectionName, { events, differences }: Comparison, json: boolean | undefined): Promise<void> {
  if (differences.length > 0) process.exitCode = EXIT.failed;
  if (json) return printJson({ projection: name, agrees: differences.length === 0, events, differences });
  if (differences.length === 0) return print(`${name} agrees with the log (${events} events)`);
  await print(`${name} differs from the log in: ${differences.join(', ')}\n\`waybill projections rebuild ${name}\` mends it`);
}
