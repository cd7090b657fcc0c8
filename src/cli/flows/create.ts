import type { Command } from 'commander';
import { createFlow, reserveFlow } from '../../commands/flows.ts';
import { type FlowRequest, flowRequest } from '../../contract/flows/requests.ts';
import type { Installation } from '../../installation.ts';
import { showFlow } from '../../processes/flows/show-flows.ts';
import { requireAccount } from '../program/account.ts';
import { note, print, printJson } from '../program/output.ts';
import { globs, parseRequest } from '../program/parse.ts';
import { operator, withInstallation } from '../program/session.ts';
import { type Common, type CopyOptions, copyFields, withCopyOptions } from '../transfers/flags.ts';
import { withCommon } from './flags.ts';

interface CreateOptions extends Common, CopyOptions {
  name: string;
  pattern?: string;
  recursive?: boolean;
  exclude?: string[];
  every?: string;
  cron?: string;
  timeZone?: string;
  unchangedFor?: string;
  marker?: string;
  newOnly?: boolean;
  paused?: boolean;
}

/** Adds the command that creates a flow. */
export function addCreateCommand(flows: Command): void {
  const command = flows
    .command('create')
    .description('copy the files of a folder as they come')
    .argument('<source>', 'a folder, such as sftp://hospital/out/')
    .argument('<destination>', 'a template, such as s3://archive/{date:yyyy-MM-dd}/')
    .requiredOption('--name <name>', 'the name that people see; replaces {flow} in the destination')
    .option('--pattern <glob>', 'only files that match, such as *.csv')
    .option('--recursive', 'also files of subfolders')
    .option('--exclude <globs>', 'files to leave out: a,b', globs)
    .option('--every <duration>', 'look at the folder at this interval, such as 5m')
    .option('--cron <expression>', "look at the folder at these times, such as '0 6 * * 1-5'")
    .option('--time-zone <name>', 'the time zone of --cron, such as Europe/Berlin')
    .option(
      '--unchanged-for <duration>',
      'take a file when it has not changed for this long, such as 30s',
    )
    .option('--marker <end>', 'take a file when NAME and this end, such as .done, is beside it')
    .option('--new-only', 'skip the files that are in the folder now')
    .option('--paused', 'create it paused');
  withCommon(withCopyOptions(command)).action(
    (source: string, destination: string, options: CreateOptions) =>
      withInstallation((installation) => create(installation, source, destination, options)),
  );
}

async function create(
  installation: Installation,
  uri: string,
  destination: string,
  options: CreateOptions,
): Promise<void> {
  const { account, json } = options;
  const request = toRequest(uri, destination, options);
  const { sql, commands } = installation;
  await requireAccount(installation, account);
  const { state, position } = await createFlow(
    commands,
    account,
    request,
    operator(),
    reserveFlow(),
  );
  await commands.waitFor('flows', position);
  if (json) return printJson(await showFlow(sql, state));
  await print(state.flow_id);
  note(`See what it would take with \`waybill flows run ${state.flow_id} --dry-run\``);
}

/** Returns the request that the options describe. Throws `validation_failed`. */
function toRequest(uri: string, destination_uri: string, options: CreateOptions): FlowRequest {
  const { name, pattern, recursive, exclude, every, cron, timeZone, marker } = options;
  const { unchangedFor: unchanged_for } = options;
  const timed = every !== undefined || cron !== undefined || timeZone !== undefined;
  const body = {
    name,
    source: { uri, pattern, recursive, exclude },
    destination_uri,
    ...((unchanged_for ?? marker) !== undefined && { ready: { unchanged_for, marker } }),
    ...(timed && { trigger: { every, cron, time_zone: timeZone } }),
    ...copyFields(options),
    start: options.newOnly ? 'new_only' : 'now',
    enabled: !options.paused,
  };
  return parseRequest(flowRequest, body, 'The flow');
}
