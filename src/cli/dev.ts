import type { Command } from 'commander';
import { untilStopped } from './session.ts';

export function addDevCommand(program: Command): void {
  program
    .command('dev')
    .description(
      'everything in one process, with two demo SFTP servers and a first transfer; stays up',
    )
    .action(() =>
      untilStopped(async (stop) => {
        const { runDemo } = await import('./run-demo.ts');
        await runDemo(stop);
      }),
    );
}
