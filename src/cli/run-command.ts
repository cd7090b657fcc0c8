import { createRequire } from 'node:module';
import { Command } from 'commander';
import { addAuditCommands } from './audit.ts';
import { addBatchCommands } from './batches.ts';
import { addDevCommand } from './dev.ts';
import { addEndpointCommands } from './endpoints.ts';
import { EXIT_CODES_HELP, type ExitCode } from './exit-codes.ts';
import { failureOf } from './failure.ts';
import { addFlowCommands } from './flows.ts';
import { addHistoryCommand } from './history.ts';
import { addKeyCommands } from './keys.ts';
import { addLogCommands } from './log-commands.ts';
import { note, watchOutput } from './output.ts';
import { addProjectionCommands } from './projections.ts';
import { addReceiptCommands } from './receipt.ts';
import { addRetentionCommands } from './retention.ts';
import { addServiceCommands } from './serve.ts';
import { runOn, type Terminal, terminal } from './terminal.ts';
import { addTransferCommands } from './transfers.ts';
import { addVaultCommands } from './vault.ts';
import { addWebhookCommands } from './webhooks.ts';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

const COMMANDS = [
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
];

/** Runs a command line, without the name of the program. Returns the exit code. */
export function runCommand(args: string[], on: Terminal): Promise<ExitCode> {
  return runOn(on, async () => {
    watchOutput();
    try {
      await createProgram(on).parseAsync(args, { from: 'user' });
    } catch (error) {
      const { exitCode, message } = failureOf(error);
      if (message !== null) note(`waybill: ${message}`);
      terminal().exitCode = exitCode;
    }
  });
}

function createProgram({ stdout, stderr }: Terminal): Command {
  const program = new Command('waybill')
    .description('Managed file transfer: every transfer an append-only stream of events')
    .version(version)
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
    })
    .exitOverride()
    .showHelpAfterError('(--help lists the commands and options)')
    .addHelpText('after', EXIT_CODES_HELP);
  for (const add of COMMANDS) add(program);
  return program;
}
