import { type Command, InvalidArgumentError, Option } from 'commander';
import { PROCESS_ROLES, type ProcessRole } from '../../process-roles.ts';
import { commaSeparated } from '../program/parse.ts';
import { untilStopped } from '../program/session.ts';

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('run the service until SIGTERM or SIGINT; a second one ends it at once')
    .addOption(
      new Option('--roles <a,b>', `roles of this process: ${PROCESS_ROLES.join(', ')}`)
        .argParser(parseRoles)
        .default([...PROCESS_ROLES], 'all of them'),
    )
    .action(({ roles }: { roles: ProcessRole[] }) =>
      untilStopped(async (stop) => {
        const { runService } = await import('./run-service.ts');
        await runService(roles, stop);
      }),
    );
}

function parseRoles(text: string): ProcessRole[] {
  const roles = commaSeparated(text) as ProcessRole[];
  if (text.trim() === '')
    throw new InvalidArgumentError(`It must name at least one of ${PROCESS_ROLES.join(', ')}.`);
  const unknown = roles.filter((role) => !PROCESS_ROLES.includes(role));
  if (unknown.length > 0)
    throw new InvalidArgumentError(
      `There is no role ${unknown.map((role) => `'${role}'`).join(', ')}: ` +
        `it must be one of ${PROCESS_ROLES.join(', ')}.`,
    );
  return roles;
}
