import type { Command } from 'commander';
import { untilStopped } from '../program/session.ts';

export function addDevCommand(program: Command): void {
  program
    .command('dev')
    .description(
      'run everything in one process until SIGINT: the service, two demo SFTP servers, a transfer',
    )
    .action(() =>
      untilStopped(async (stop) => {
        const { runDemo } = await import('./run-demo.ts');
        await runDemo(stop);
      }),
    );
}
