import { endAtSignals, exitWith, PROCESS } from './cli/program/terminal.ts';
import { runCommand } from './cli/run-command.ts';

endAtSignals();
exitWith(await runCommand(process.argv.slice(2), PROCESS));
