import { type Command, InvalidArgumentError } from 'commander';
import { openInstallation } from '../installation.ts';
import { ROLES, type Role, startService } from '../service.ts';
import { createStartUp } from '../start-up.ts';
import { stdoutLog } from './log.ts';
import { print } from './output.ts';
import { commaSeparated } from './parse.ts';
import { readConfig, stopSignal, withInstallation } from './session.ts';

export function addServiceCommands(program: Command): void {
  program
    .command('serve')
    .description('run the service until SIGTERM or SIGINT; a second one ends it at once')
    .option('--roles <a,b>', `roles of this process: ${ROLES.join(', ')}`, parseRoles, [...ROLES])
    .action(({ roles }: { roles: Role[] }) => untilStopped((stop) => serve(roles, stop)));

  program
    .command('migrate')
    .description("bring Postgres' tables up to this version; `serve` does it too")
    .action(async () => {
      await withInstallation(async () => undefined);
      await print('The tables are up to date');
    });
}

async function serve(roles: Role[], stop: AbortSignal): Promise<void> {
  const config = readConfig('info');
  const { logger, flushed } = stdoutLog(config.logLevel);
  await using closers = new AsyncDisposableStack();
  closers.defer(flushed);
  const startUp = createStartUp(config, logger, { answers: roles.includes('api'), signal: stop });
  closers.defer(() => startUp.close());
  const installation = await startUp.attempt(() => openInstallation(config, logger));
  closers.defer(() => installation.close());
  const service = await startService(installation, roles, startUp);
  closers.defer(() => service.stop());
  closers.defer(() => logger.info('waybill stops'));
  await Promise.race([aborted(stop), service.failed]);
}

/**
 * Runs work until it ends, or until SIGTERM or SIGINT stops it. It may still wait for its stores.
 */
export async function untilStopped(work: (stop: AbortSignal) => Promise<void>): Promise<void> {
  const stop = stopSignal();
  try {
    await work(stop);
  } catch (error) {
    if (!stop.aborted || error !== stop.reason) throw error;
  }
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

function parseRoles(text: string): Role[] {
  const roles = commaSeparated(text) as Role[];
  const unknown = roles.filter((role) => !ROLES.includes(role));
  if (unknown.length > 0)
    throw new InvalidArgumentError(
      `There is no role ${unknown.join(', ')}; there are ${ROLES.join(', ')}.`,
    );
  return roles;
}
