import type { Command } from 'commander';
import { ensureSigningKey, rotateSigningKey } from '../../commands/log.ts';
import { toCheckpoint } from '../../contract/proof.ts';
import { originOf } from '../../domain/proof/checkpoint.ts';
import { checkpointNow } from '../../processes/proof/checkpoint-now.ts';
import { signingKeysOfLog } from '../../projections/proof/queries.ts';
import { note, print, printFacts, printJson, write } from '../program/output.ts';
import { operator, withInstallation } from '../program/session.ts';
import { addLogAdoptCommand } from './adopt.ts';
import { addLogCopyCommand } from './copy.ts';
import { waitForTree } from './wait-for-tree.ts';

interface Json {
  json?: boolean;
}

export function addLogCommands(program: Command): void {
  const log = program
    .command('log')
    .description('sign the log, for auditors, copy it to the other engine, or take it over');

  addLogCopyCommand(log);
  addLogAdoptCommand(log);

  log
    .command('keys')
    .description('show the public keys that sign checkpoints, and since when')
    .option('--json', 'one JSON document, as the API answers')
    .action(({ json }: Json) =>
      withInstallation(async (installation) => {
        await ensureSigningKey(installation, operator());
        const keys = await signingKeysOfLog(installation.store, installation.logId);
        const origin = originOf(installation.logId);
        if (json) return printJson({ origin, data: keys });
        for (const { key_id, since, until, public_key, signed_by_previous } of keys) {
          await printFacts({ origin, key_id, since, until });
          if (signed_by_previous === false)
            note(`The key before it did not sign ${key_id}: it was lost, or the log was changed.`);
          await print(public_key);
        }
      }),
    );

  log
    .command('checkpoint')
    .description('sign everything that the log holds now, and print the signed note')
    .option('--json', 'one JSON document, as the API answers')
    .action(({ json }: Json) =>
      withInstallation(async (installation) => {
        await waitForTree(installation);
        const signed = await checkpointNow(installation, operator());
        if (json) return printJson(toCheckpoint(signed));
        await write(signed.note);
      }),
    );

  log
    .command('rotate-key')
    .description('replace the key that signs checkpoints; the old key signs the new one')
    .option('--lost', 'for an old private key that cannot be read: auditors must trust the new key')
    .option('--json', 'one JSON document')
    .action(({ lost = false, json }: Json & { lost?: boolean }) =>
      withInstallation(async (installation) => {
        const { key_id, public_key, since, statement } = await rotateSigningKey(
          installation,
          operator(),
          { lost },
        );
        if (json) return printJson({ key_id, public_key, since, statement });
        await printFacts({ key_id, since });
        await print(public_key);
      }),
    );
}
