import { endAtSignals, PROCESS } from './cli/program/terminal.ts';
import { runCommand } from './cli/run-command.ts';

endAtSignals();
// Exits even if handles are still open.
process.exit(await runCommand(process.argv.slice(2), PROCESS));
