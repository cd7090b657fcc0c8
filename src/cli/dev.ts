import type { Command } from 'commander';
export function addDevCommand(program: Command): void {
  program.command('dev');
}
