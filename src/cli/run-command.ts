import { createRequire } from 'node:module';
import { Command } from 'commander';
import { NoInstallation } from '../adapters/postgres/existing-installation.ts';
import { EXIT, EXIT_CODES_HELP, type ExitCode } from './program/exit-codes.ts';
import { failureOf } from './program/failure.ts';
import { note, visible, watchOutput } from './program/output.ts';
import { runOn, type Terminal, terminal } from './program/terminal.ts';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

type AddTo = (program: Command) => void;

/**
 * The file of each command. Only the file of the command that runs is loaded: all of them, with
 * what they import, take longer than most commands.
 */
const COMMANDS: Record<string, () => Promise<AddTo>> = {
  dev: async () => (await import('./installation/dev.ts')).addDevCommand,
  serve: async () => (await import('./installation/serve.ts')).addServeCommand,
  migrate: async () => (await import('./installation/migrate.ts')).addMigrateCommand,
  status: async () => (await import('./installation/status.ts')).addStatusCommand,
  transfers: async () => (await import('./transfers/transfers.ts')).addTransferCommands,
  batches: async () => (await import('./batches/batches.ts')).addBatchCommands,
  flows: async () => (await import('./flows/flows.ts')).addFlowCommands,
  history: async () => (await import('./transfers/history.ts')).addHistoryCommand,
  endpoints: async () => (await import('./endpoints/endpoints.ts')).addEndpointCommands,
  keys: async () => (await import('./installation/keys.ts')).addKeyCommands,
  webhooks: async () => (await import('./webhooks/webhooks.ts')).addWebhookCommands,
  projections: async () => (await import('./installation/projections.ts')).addProjectionCommands,
  audit: async () => (await import('./log/audit.ts')).addAuditCommands,
  log: async () => (await import('./log/log.ts')).addLogCommands,
  receipt: async () => (await import('./log/receipt.ts')).addReceiptCommands,
  retention: async () => (await import('./log/retention.ts')).addRetentionCommands,
  vault: async () => (await import('./installation/vault.ts')).addVaultCommands,
};

const VERSION_FLAGS = ['-V', '--version'];

/** Runs a command line, without the name of the program. Returns the exit code. */
export function runCommand(args: string[], on: Terminal): Promise<ExitCode> {
  return runOn(on, async () => {
    watchOutput();
    const program = createProgram(on);
    let running = program;
    program.hook('preAction', (_, command) => {
      running = command;
    });
    try {
      for (const add of await commandsOf(args)) add(program);
      await program.parseAsync(args, { from: 'user' });
    } catch (error) {
      const { exitCode, message } = failureOf(error);
      // It may quote what a file or another system says.
      if (message !== null) note(`waybill: ${message.split('\n').map(visible).join('\n')}`);
      const wasSearched = exitCode === EXIT.notFound && !(error instanceof NoInstallation);
      if (wasSearched && running.getOptionValueSource('account') === 'default')
        note(`  Only the account ${running.opts().account} was searched: --account names another.`);
      if (exitCode !== null) terminal().exitCode = exitCode;
    }
  });
}

function createProgram({ stdout, stderr }: Terminal): Command {
  return new Command('waybill')
    .description('Managed file transfer. Every transfer is an append-only stream of events')
    .version(version, VERSION_FLAGS.join(', '))
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
    })
    .exitOverride()
    .showHelpAfterError('(--help lists the commands and options)')
    .addHelpText('after', EXIT_CODES_HELP);
}

/** Returns the command that the arguments name, else all of them: for the help. */
async function commandsOf([name = '']: string[]): Promise<AddTo[]> {
  if (VERSION_FLAGS.includes(name)) return [];
  const named = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  const loaders = named ? [named] : Object.values(COMMANDS);
  return Promise.all(loaders.map((load) => load()));
}
