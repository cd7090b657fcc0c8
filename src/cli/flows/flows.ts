import type { Command } from 'commander';
import { switchFlow } from '../../commands/flows.ts';
import type { Installation } from '../../installation.ts';
import { print, printJson } from '../program/output.ts';
import { operator, withInstallation } from '../program/session.ts';
import type { Common } from '../transfers/flags.ts';
import { addCreateCommand } from './create.ts';
import { withCommon } from './flags.ts';
import { dryRunFlow, runFlow } from './run.ts';
import { addShowCommands } from './show.ts';

/** The commands that switch a flow, with their descriptions. */
const SWITCHES = [
  ['pause', 'pause a flow: no run starts until you resume it or ask for one'],
  ['resume', 'resume a paused flow'],
  ['remove', 'remove a flow; an open run continues'],
] as const;

type Switch = (typeof SWITCHES)[number][0];

export function addFlowCommands(program: Command): void {
  const flows = program
    .command('flows')
    .description('create and follow flows; each copies the files of a folder as they come');
  addCreateCommand(flows);
  addShowCommands(flows);

  withCommon(
    flows
      .command('run')
      .description('run a flow now, or show what a run would take')
      .argument('<flow-id>')
      .option('--dry-run', 'only show what a run would take'),
  ).action((id: string, options: Common & { dryRun?: boolean }) =>
    withInstallation((installation) =>
      (options.dryRun ? dryRunFlow : runFlow)(installation, id, options),
    ),
  );

  for (const [change, description] of SWITCHES)
    withCommon(flows.command(change).description(description).argument('<flow-id>')).action(
      (id: string, options: Common) =>
        withInstallation((installation) => switchTo(installation, id, change, options)),
    );
}

async function switchTo(
  { commands }: Installation,
  id: string,
  change: Switch,
  { account, json }: Common,
): Promise<void> {
  const { state, position } = await switchFlow(commands, account, id, change, operator());
  await commands.waitFor('flows', position);
  await (json ? printJson({ id, status: state.status }) : print(`${id} ${state.status}`));
}
