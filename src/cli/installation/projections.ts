import { Argument, type Command } from 'commander';
import type { ProjectionName } from '../../domain/projection-name.ts';
import type { Installation } from '../../installation.ts';
import { rebuildDispatch } from '../../processes/dispatch/consumer.ts';
import { rebuildOutbox } from '../../processes/webhooks/outbox.ts';
import { listCheckpoints } from '../../projections/checkpoint.ts';
import { PROJECTIONS } from '../../projections/read-models.ts';
import { rebuildProjection, verifyProjection } from '../../projections/rebuild/rebuild.ts';
import type { Comparison, RebuildProgress } from '../../projections/rebuild/shadow.ts';
import { EXIT, type ExitCode } from '../program/exit-codes.ts';
import { failureOf } from '../program/failure.ts';
import {
  type Columns,
  createPrintQueue,
  note,
  print,
  printJson,
  printTable,
  seconds,
} from '../program/output.ts';
import { createProgressBar } from '../program/progress.ts';
import { withInstallation } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';

const NAMES = Object.keys(PROJECTIONS) as ProjectionName[];

interface Json {
  json?: boolean;
}

export function addProjectionCommands(program: Command): void {
  const projections = program
    .command('projections')
    .description('list, rebuild and verify the tables that are derived from the log');

  projections
    .command('list')
    .description('show the position of each projection and process manager')
    .option('--json', 'one JSON line each')
    .action(({ json }: Json) => withInstallation((installation) => list(installation, json)));

  projections
    .command('rebuild')
    .description('rebuild a projection in shadow tables, then switch over without downtime')
    .addArgument(
      new Argument(
        '<name>',
        'dispatch: the jobs of the movers; outbox: continue at the end of a replaced log',
      ).choices([...NAMES, 'dispatch', 'outbox']),
    )
    .option('--json', 'JSON lines: progress, then the result')
    .action((name: ProjectionName | 'dispatch' | 'outbox', { json }: Json) =>
      withInstallation(
        async (installation) => {
          if (name === 'dispatch') return rebuildJobs(installation, json);
          if (name === 'outbox') return skipToEnd(installation, json);
          const { events, differences, details } = await withProgress(
            name,
            json,
            (onProgress, onWait) => {
              const deps = { ...installation, sql: installation.patient };
              return rebuildProjection(deps, name, onProgress, onWait);
            },
          );
          if (json)
            return printJson({ projection: name, rebuilt: true, events, differences, details });
          await print(`${name} is rebuilt from ${counted(events)}`);
          if (details.length > 0)
            await print(
              'The old tables differed from the log:\n' +
                details.map((line) => `  ${line}`).join('\n'),
            );
        },
        { runsLong: true },
      ),
    );

  projections
    .command('verify')
    .description('compare the live tables with the log; exit code 1 if they differ')
    .addArgument(new Argument('[name]').choices(NAMES))
    .option('--json', 'JSON lines: progress, then the result')
    .action((name: ProjectionName | undefined, { json }: Json) =>
      withInstallation(
        async (installation) => {
          failUntilVerdict();
          await verify(installation, name ? [name] : NAMES, json);
        },
        { runsLong: true },
      ),
    );
}

/**
 * Verifies each projection, also after one that differs or cannot be compared. Those that cannot
 * are named at the end.
 */
async function verify(
  installation: Installation,
  names: ProjectionName[],
  json: boolean | undefined,
): Promise<void> {
  const failures: { name: ProjectionName; exitCode: ExitCode; message: string }[] = [];
  let agree = true;
  for (const name of names) {
    let comparison: Comparison;
    try {
      comparison = await withProgress(name, json, (onProgress) =>
        verifyProjection({ ...installation, sql: installation.patient }, name, onProgress),
      );
    } catch (error) {
      const { exitCode, message } = failureOf(error);
      // Its reader has closed stdout.
      if (exitCode === null || message === null || names.length === 1) throw error;
      failures.push({ name, exitCode, message });
      continue;
    }
    agree &&= comparison.differences.length === 0;
    // Set before the last report, whose reader may have gone: the verdict is known.
    if (name === names.at(-1) && agree && failures.length === 0) terminal().exitCode = EXIT.done;
    await report(name, comparison, json);
  }
  const isAway = failures.every(({ exitCode }) => exitCode === EXIT.unavailable);
  if (agree && failures.length > 0 && isAway) terminal().exitCode = EXIT.unavailable;
  for (const { name, message } of failures)
    if (json) await printJson({ projection: name, agrees: null, error: message });
    else note(`${name} was not compared: ${message}`);
}

async function list({ sql, store }: Installation, json: boolean | undefined): Promise<void> {
  const head = (await store.head()) ?? 0n;
  const rows = await listCheckpoints(sql);
  if (json) {
    for (const { name, position, updated_at } of rows)
      await printJson({ name, position, log_position: head, updated_at });
  } else {
    const columns: Columns<(typeof rows)[number]> = {
      NAME: ({ name }) => name,
      POSITION: ({ position }) => position,
      'END OF THE LOG': () => head,
      'MOVED AT': ({ updated_at }) => updated_at,
    };
    await printTable(columns, rows, 'There are no projections yet');
  }
}

async function rebuildJobs({ sql, logId }: Installation, json: boolean | undefined): Promise<void> {
  await rebuildDispatch(sql, logId);
  if (json) await printJson({ projection: 'dispatch', rebuilt: true });
  else
    await print(
      'The mover that runs dispatch rebuilds the jobs from the log; if none runs, the next ' +
        'mover does',
    );
}

async function skipToEnd(installation: Installation, json: boolean | undefined): Promise<void> {
  await rebuildOutbox(installation);
  if (json) await printJson({ projection: 'outbox', rebuilt: true });
  else await print('The outbox continues at the end of the log: earlier events are not delivered');
}

async function withProgress(
  name: ProjectionName,
  json: boolean | undefined,
  work: (
    onProgress: (progress: RebuildProgress) => void,
    onWait: () => void,
  ) => Promise<Comparison>,
): Promise<Comparison> {
  const bar = json ? null : createProgressBar();
  const lines = createPrintQueue();
  const onProgress = (progress: RebuildProgress) => {
    if (json) lines.add(() => printJson({ projection: name, ...shown(progress) }));
    bar?.show(
      progress.share,
      `${progress.events} events  ${progress.eventsPerSecond} events/s${left(progress)}`,
    );
  };
  const onWait = () => {
    bar?.clear();
    note(`Other sessions of Postgres use the tables of ${name}: waiting until they end`);
  };
  const comparison = await work(onProgress, onWait).finally(() => bar?.clear());
  await lines.printed();
  return comparison;
}

function shown({ events, share, eventsPerSecond, secondsLeft }: RebuildProgress) {
  return { events, share, events_per_second: eventsPerSecond, seconds_left: secondsLeft };
}

function left({ secondsLeft }: RebuildProgress): string {
  return secondsLeft === null ? '' : `  ${seconds(secondsLeft)} left`;
}

function counted(events: number): string {
  return `${events} ${events === 1 ? 'event' : 'events'}`;
}

async function report(
  name: ProjectionName,
  { events, differences, details }: Comparison,
  json: boolean | undefined,
): Promise<void> {
  if (json)
    return printJson({
      ...{ projection: name, agrees: differences.length === 0, events },
      ...{ differences, details },
    });
  if (differences.length === 0) return print(`${name} matches the log (${counted(events)})`);
  await print(
    `${name} differs from the log:\n${details.map((line) => `  ${line}\n`).join('')}` +
      'Either the table or the log was changed. Keep both: make a copy of the database before ' +
      'anything else.\n' +
      'Compare the log with a checkpoint that was kept elsewhere (`waybill audit verify ' +
      '--checkpoint`), or with an earlier export.\n' +
      `If the log is as it was signed, \`waybill projections rebuild ${name}\` makes the table ` +
      'follow it',
  );
}
