import type { Command } from 'commander';
import { createTransfer } from '../../commands/create-transfer.ts';
import { transferRequest } from '../../contract/transfers/requests.ts';
import { toCreated } from '../../contract/transfers/views.ts';
import type { Installation } from '../../installation.ts';
import { requireAccount } from '../program/account.ts';
import { parseRequest } from '../program/parse.ts';
import { operator, withInstallation } from '../program/session.ts';
import { printCreated } from './changes.ts';
import {
  ACCOUNT_OPTION,
  type Common,
  type CommonCopyOptions,
  commonCopyFields,
  withCommonCopyOptions,
} from './flags.ts';

interface CreateOptions extends Common, CommonCopyOptions {
  watch?: boolean;
  expectedSha256?: string;
}

/** Adds the command that creates a transfer. */
export function addCreateCommand(transfers: Command): void {
  const command = transfers
    .command('create')
    .description('copy a file')
    .argument(
      '<source>',
      'such as sftp://hospital/out/report.csv, with the name of an endpoint or its host',
    )
    .argument('<destination>', 'if it ends in a slash, the file name is appended')
    .option('--expected-sha256 <hex>', 'fail unless the file has this SHA-256');
  withCommonCopyOptions(command, 'it')
    .option('--watch', 'follow it to its end, as `transfers watch` does')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document; JSON lines with --watch')
    .action((source: string, destination: string, options: CreateOptions) =>
      withInstallation((installation) => create(installation, source, destination, options), {
        runsLong: options.watch,
      }),
    );
}

async function create(
  installation: Installation,
  source_uri: string,
  destination_uri: string,
  { account, json, watch, ...options }: CreateOptions,
): Promise<void> {
  const body = {
    source_uri,
    destination_uri,
    expected_sha256: options.expectedSha256,
    ...commonCopyFields(options),
  };
  const request = parseRequest(transferRequest, body, 'The transfer');
  await requireAccount(installation, account);
  const created = await createTransfer(installation.commands, account, request, operator());
  await printCreated(installation, created, toCreated, { account, json, watch });
}
