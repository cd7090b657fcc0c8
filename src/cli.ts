import { Command } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { addAuditCommands } from './cli/audit.ts';
import { addBatchCommands } from './cli/batches.ts';
import { addDevCommand } from './cli/dev.ts';
import { addEndpointCommands } from './cli/endpoints.ts';
import { EXIT_CODES_HELP } from './cli/exit-codes.ts';
import { failureOf } from './cli/failure.ts';
import { addFlowCommands } from './cli/flows.ts';
import { addHistoryCommand } from './cli/history.ts';
import { addKeyCommands } from './cli/keys.ts';
import { addLogCommands } from './cli/log-commands.ts';
import { note, watchOutput } from './cli/output.ts';
import { addProjectionCommands } from './cli/projections.ts';
import { addReceiptCommands } from './cli/receipt.ts';
import { addRetentionCommands } from './cli/retention.ts';
import { addServiceCommands } from './cli/serve.ts';
import { addTransferCommands } from './cli/transfers.ts';
import { addVaultCommands } from './cli/vault.ts';
import { addWebhookCommands } from './cli/webhooks.ts';

watchOutput();
const program = new Command('waybill')
  .description('Managed file transfer: every transfer an append-only stream of events')
  .version(manifest.version)
  .exitOverride()
  .showHelpAfterError('(--help lists the commands and options)')
  .addHelpText('after', EXIT_CODES_HELP);
for (const add of [
  addDevCommand,
  addServiceCommands,
  addTransferCommands,
  addBatchCommands,
  addFlowCommands,
  addHistoryCommand,
  addEndpointCommands,
  addKeyCommands,
  addWebhookCommands,
  addProjectionCommands,
  addAuditCommands,
  addLogCommands,
  addReceiptCommands,
  addRetentionCommands,
  addVaultCommands,
]) {
  add(program);
}

try {
  await program.parseAsync();
} catch (error) {
  const { exitCode, message } = failureOf(error);
  if (message !== null) note(`waybill: ${message}`);
  process.exitCode = exitCode;
}
// Exits even if handles are still open.
process.exit();
