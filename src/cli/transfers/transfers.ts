import type { Command } from 'commander';
import { addTransferChanges } from './changes.ts';
import { addCreateCommand } from './create.ts';
import { addListCommand } from './list.ts';
import { addShowCommands } from './show.ts';

export function addTransferCommands(program: Command): void {
  const transfers = program
    .command('transfers')
    .description('create and follow transfers; each copies one file');
  addCreateCommand(transfers);
  addListCommand(transfers);
  addShowCommands(transfers);
  addTransferChanges(transfers);
}
