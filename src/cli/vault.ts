import type { Command } from 'commander';
import { print, printJson } from './output.ts';
import { withInstallation } from './session.ts';

export function addVaultCommands(program: Command): void {
  program
    .command('vault')
    .description('the credentials that are kept encrypted')
    .command('rotate')
    .description('wrap every record with the newest master key: a fresh one, or the first of WAYBILL_MASTER_KEY=NEW,OLD')
    .option('--json', 'one JSON document')
    .action(async ({ json }: { json?: boolean }) => {
      const { rewrapped, ownKey } = await withInstallation(async ({ vault, config }) => ({
        ...(await vault.rotate()),
        ownKey: config.masterKey === null,
      }));
      if (json) return printJson({ rewrapped });
      await print(`${rewrapped} ${rewrapped === 1 ? 'record is' : 'records are'} under the current master key`);
      if (!ownKey) await print('Older keys in WAYBILL_MASTER_KEY are not needed any more, once every process runs with the new one');
    });
}
