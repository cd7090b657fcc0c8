import { type Command, InvalidArgumentError } from 'commander';
import pino from 'pino';
import { openInstallation } from '../installation.ts';
import { ROLES, type Role, startService } from '../main.ts';
import { print } from './output.ts';
import { commaSeparated } from './parse.ts';
import { readConfig, stopSignal, withInstallation } from './session.ts';

export function addServiceCommands(program: Command): void {
  program
    .command('serve')
    .description('run the service until SIGTERM or SIGINT; a second one ends it at once')
    .option('--roles <a,b>', `what this process does: ${ROLES.join(', ')}`, parseRoles, [...ROLES])
    .action(({ roles }: { roles: Role[] }) => serve(roles));

  program
    .command('migrate')
    .description("bring Postgres' tables up to this version; `serve` does it too")
    .action(async () => {
      await withInstallation(async () => undefined);
      await print('The tables are those of this version');
    });
}

/** Logs to stdout, which is what a service's own supervisor collects. */
async function serve(roles: Role[]): Promise<void> {
  const stop = stopSignal();
  const config = readConfig('info');
  const logger = pino({ level: config.logLevel });
  const installation = await openInstallation(config, logger);
  try {
    const service = await startService(installation, roles);
    try {
      await Promise.race([aborted(stop), service.failed]);
    } finally {
      logger.info('waybill stops');
      await service.stop();
    }
  } finally {
    await installation.close();
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
  if (unknown.length > 0) throw new InvalidArgumentError(`There is no role ${unknown.join(', ')}; there are ${ROLES.join(', ')}.`);
  return roles;
}
