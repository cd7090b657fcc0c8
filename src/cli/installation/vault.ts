import type { Command } from 'commander';
import { print, printJson } from '../program/output.ts';
import { withInstallation } from '../program/session.ts';

export function addVaultCommands(program: Command): void {
  program
    .command('vault')
    .description('rotate the key of the encrypted credentials')
    .command('rotate')
    .description(
      'wrap every record with a new master key: a generated one, or the first of ' +
        'WAYBILL_MASTER_KEY=NEW,OLD',
    )
    .option('--json', 'one JSON document')
    .action(async ({ json }: { json?: boolean }) => {
      const { rewrapped, ownKey } = await withInstallation(async ({ vault, config }) => ({
        ...(await vault.rotate()),
        ownKey: config.masterKey === null,
      }));
      if (json) return printJson({ rewrapped });
      await print(
        `${rewrapped} ${rewrapped === 1 ? 'record is' : 'records are'} wrapped with the ` +
          'current master key',
      );
      if (!ownKey)
        await print(
          'Remove the older keys from WAYBILL_MASTER_KEY once every process runs with the new one',
        );
    });
}
