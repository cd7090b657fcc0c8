import type { Command } from 'commander';
import { print, printJson } from '../program/output.ts';
import { withInstallation } from '../program/session.ts';

interface RotateOptions {
  lost?: boolean;
  json?: boolean;
}

export function addVaultCommands(program: Command): void {
  program
    .command('vault')
    .description('rotate the key of the encrypted credentials')
    .command('rotate')
    .description(
      'wrap every record with a new master key: a generated one, or the first of ' +
        'WAYBILL_MASTER_KEY=NEW,OLD',
    )
    .option('--lost', 'the master key is lost: forget what it encrypted. Stop every process first')
    .option('--json', 'one JSON document')
    .action(({ lost = false, json = false }: RotateOptions) =>
      lost ? forget(json) : rotate(json),
    );
}

async function rotate(json: boolean): Promise<void> {
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
}

async function forget(json: boolean): Promise<void> {
  await withInstallation(async () => undefined, { masterKeyIsLost: true });
  if (json) return printJson({ forgotten: true });
  await print(
    'What the lost master key had encrypted is forgotten. Set the credentials of each endpoint ' +
      'again, rotate the secret of each webhook, and run: waybill log rotate-key --lost',
  );
}
