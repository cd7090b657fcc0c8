import { runCommand } from './cli/program/run-command.ts';
import { PROCESS } from './cli/program/terminal.ts';

// Exits even if handles are still open.
process.exit(await runCommand(process.argv.slice(2), PROCESS));
