import { type Command, Option } from 'commander';
import { createFlow, loadFlow, reserveFlow, switchFlow } from '../../commands/flows.ts';
import {
  flowPageQuery,
  flowQuery,
  flowRequest,
  flowStatus,
} from '../../contract/flows/requests.ts';
import { toFile } from '../../contract/flows/views.ts';
import { toPage } from '../../contract/pages.ts';
import { PRIORITIES } from '../../domain/transfers/transfer.ts';
import type { Installation } from '../../installation.ts';
import { showFlow, showFlows } from '../../processes/flows/show-flows.ts';
import { listFiles, listFlows } from '../../projections/flows/queries.ts';
import { requireAccount } from '../program/account.ts';
import { note, print, printJson, printTable } from '../program/output.ts';
import { noteMore, type PageOptions, withPage } from '../program/page.ts';
import { commaSeparated, keyValue, parseRequest } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { operator, withInstallation } from '../program/session.ts';
import {
  ACCOUNT_OPTION,
  type AfterOptions,
  afterOf,
  type Common,
  METADATA_OPTION,
  withAfter,
} from '../transfers/flags.ts';
import { dryRunFlow, runFlow } from './run.ts';
import { printFlow } from './show.ts';

interface CreateOptions extends Common, AfterOptions {
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
  priority: string;
  metadata?: Record<string, string>;
}

interface ListOptions extends Common, PageOptions {
  status?: string;
  q?: string;
}

export function addFlowCommands(program: Command): void {
  const flows = program
    .command('flows')
    .description('create and follow flows; each copies the files of a folder as they come');
  const common = (command: Command) =>
    command.option(...ACCOUNT_OPTION).option('--json', 'one JSON document, as the API answers');

  common(
    withAfter(flows.command('create').description('copy the files of a folder as they come'))
      .argument('<source>', 'a folder, such as sftp://hospital/out/')
      .argument('<destination>', 'a template, such as s3://archive/{date:yyyy-MM-dd}/')
      .requiredOption(
        '--name <name>',
        'the name that people see; replaces {flow} in the destination',
      )
      .option('--pattern <glob>', 'only files that match, such as *.csv')
      .option('--recursive', 'also files of subfolders')
      .option('--exclude <globs>', 'files to leave out: a,b', commaSeparated)
      .option('--every <duration>', 'look at the folder at this interval, such as 5m')
      .option('--cron <expression>', "look at the folder at these times, such as '0 6 * * 1-5'")
      .option('--time-zone <name>', 'the time zone of --cron, such as Europe/Berlin')
      .option(
        '--unchanged-for <duration>',
        'take a file when it has not changed for this long, such as 30s',
      )
      .option('--marker <end>', 'take a file when NAME and this end, such as .done, is beside it')
      .option('--new-only', 'skip the files that are in the folder now')
      .option('--paused', 'create it paused')
      .addOption(new Option('--priority <priority>').choices(PRIORITIES).default('normal'))
      .option(...METADATA_OPTION, keyValue),
  ).action((source: string, destination: string, options: CreateOptions) =>
    withInstallation((installation) => create(installation, source, destination, options)),
  );

  common(
    withPage(
      flows
        .command('list')
        .description('list flows, newest first')
        .option('--q <words>', 'words that are part of the name, source, destination or id')
        .addOption(new Option('--status <status>').choices(flowStatus.options)),
    ),
  ).action((options: ListOptions) =>
    withInstallation((installation) => list(installation, options)),
  );

  common(
    flows
      .command('show')
      .description('show a flow, its next run and its last runs')
      .argument('<flow-id>'),
  ).action((id: string, { account, json }: Common) =>
    withInstallation(async ({ sql, commands }) => {
      const { state } = await loadFlow(commands, account, id);
      const flow = await showFlow(sql, state);
      await (json ? printJson(flow) : printFlow(flow));
    }),
  );

  common(
    withPage(
      flows
        .command('files')
        .description('list the versions of files that a flow took or skipped, newest first')
        .argument('<flow-id>'),
    ),
  ).action((id: string, options: Common & PageOptions) =>
    withInstallation((installation) => files(installation, id, options)),
  );

  common(
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

  for (const [change, description] of [
    ['pause', 'pause a flow: no run starts until you resume it or ask for one'],
    ['resume', 'resume a paused flow'],
    ['remove', 'remove a flow; an open run continues'],
  ] as const)
    common(flows.command(change).description(description).argument('<flow-id>')).action(
      (id: string, { account, json }: Common) =>
        withInstallation(async ({ commands }) => {
          const { state, position } = await switchFlow(commands, account, id, change, operator());
          await commands.waitFor('flows', position);
          await (json ? printJson({ id, status: state.status }) : print(`${id} ${state.status}`));
        }),
    );
}

async function create(
  installation: Installation,
  uri: string,
  destination_uri: string,
  { account, json, ...options }: CreateOptions,
): Promise<void> {
  const { name, pattern, recursive, exclude, every, cron, timeZone, marker } = options;
  const { unchangedFor: unchanged_for, priority, metadata } = options;
  const timed = every !== undefined || cron !== undefined || timeZone !== undefined;
  const body = {
    name,
    source: { uri, pattern, recursive, exclude },
    destination_uri,
    ...((unchanged_for ?? marker) !== undefined && { ready: { unchanged_for, marker } }),
    ...(timed && { trigger: { every, cron, time_zone: timeZone } }),
    priority,
    metadata,
    after: afterOf(options),
    start: options.newOnly ? 'new_only' : 'now',
    enabled: !options.paused,
  };
  const request = parseRequest(flowRequest, body, 'The flow');
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

async function list(
  installation: Installation,
  { account, json, ...options }: ListOptions,
): Promise<void> {
  const { status, q, ...page } = parseRequest(flowQuery, options, 'The filter');
  const { sql } = installation;
  const { flows, total } = await fromReadModels(
    installation,
    ['flows'],
    () => listFlows(sql, account, { status, q }, page),
    (found) => found.total,
  );
  const { data, pagination } = toPage(await showFlows(sql, flows), page, total);
  if (json) return printJson({ data, pagination });
  await printTable(
    ['ID', 'NAME', 'STATUS', 'LAST RUN', 'NEXT RUN', 'WAITING', 'SOURCE'],
    data.map((flow) => [
      flow.id,
      flow.name,
      flow.failing ? `failing: ${flow.failing.error.code}` : flow.status,
      flow.last_run_at,
      flow.next_run_at,
      flow.waiting_files,
      flow.source.uri,
    ]),
    'No flows match',
  );
  if (pagination.has_more) noteMore(page, data.length, { total });
}

async function files(
  installation: Installation,
  id: string,
  { account, json, ...options }: Common & PageOptions,
): Promise<void> {
  const page = parseRequest(flowPageQuery, options, 'The page');
  const { sql, commands } = installation;
  await loadFlow(commands, account, id);
  const found = await fromReadModels(
    installation,
    ['flows'],
    () => listFiles(sql, id, page),
    ({ total }) => total,
  );
  const { data, pagination } = toPage(found.files.map(toFile), page, found.total);
  if (json) return printJson({ data, pagination });
  await printTable(
    ['FILE', 'VERSION', 'STATUS', 'TAKEN', 'TRANSFER'],
    data.map(({ source_uri, version, status, taken_at, transfer_id }) => [
      source_uri,
      version,
      status,
      taken_at,
      transfer_id,
    ]),
    'It has taken nothing yet',
  );
  if (pagination.has_more) noteMore(page, data.length, found);
}
