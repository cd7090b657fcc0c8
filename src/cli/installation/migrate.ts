import type { Command } from 'commander';
import { print, printJson } from '../program/output.ts';
import { withInstallation } from '../program/session.ts';

export function addMigrateCommand(program: Command): void {
  program
    .command('migrate')
    .description('migrate the tables in Postgres to this version; `serve` does so too')
    .option('--json', 'one JSON document')
    .action(async ({ json }: { json?: boolean }) => {
      const versions = await withInstallation(async ({ otherVersions }) => [...otherVersions], {
        begins: true,
        runsLong: true,
      });
      const outdated = versions.flatMap(([name, madeBy]) => (madeBy === 'older' ? [name] : []));
      if (json) return printJson({ outdated });
      await print('The tables are up to date');
      if (outdated.length > 0)
        await print(
          `A process with the role projector rebuilds those of ${outdated.join(', ')} from the log`,
        );
    });
}
