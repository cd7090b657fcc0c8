import type { Command } from 'commander';
import { print } from './program/output.ts';
import { withInstallation } from './program/session.ts';

export function addMigrateCommand(program: Command): void {
  program
    .command('migrate')
    .description('migrate the tables in Postgres to this version; `serve` does so too')
    .action(async () => {
      await withInstallation(async () => undefined);
      await print('The tables are up to date');
    });
}
