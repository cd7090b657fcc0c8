import type { Command } from 'commander';
import { print } from './output.ts';
import { withInstallation } from './session.ts';

export function addMigrateCommand(program: Command): void {
  program
    .command('migrate')
    .description("bring Postgres' tables up to this version; `serve` does it too")
    .action(async () => {
      await withInstallation(async () => undefined);
      await print('The tables are up to date');
    });
}
