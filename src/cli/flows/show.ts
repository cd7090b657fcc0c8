import { type Command, Option } from 'commander';
import { loadFlow } from '../../commands/flows.ts';
import type { FlowAnswer, FlowFileList } from '../../contract/flows/answers.ts';
import { flowPageQuery, flowQuery, flowStatus } from '../../contract/flows/requests.ts';
import { toFile } from '../../contract/flows/views.ts';
import { toPage } from '../../contract/pages.ts';
import type { Installation } from '../../installation.ts';
import { showFlow, showFlows } from '../../processes/flows/show-flows.ts';
import { listFiles, listFlows } from '../../projections/flows/queries.ts';
import {
  bytes,
  type Columns,
  print,
  printFacts,
  printJson,
  printTable,
} from '../program/output.ts';
import { noteMore, type PageOptions, withPage } from '../program/page.ts';
import { parseRequest } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { withInstallation } from '../program/session.ts';
import { afterInWords, type Common } from '../transfers/flags.ts';
import { withCommon } from './flags.ts';

const COLUMNS: Columns<FlowAnswer> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  STATUS: ({ failing, status }) => (failing ? `failing: ${failing.error.code}` : status),
  'LAST RUN': ({ last_run_at }) => last_run_at,
  'NEXT RUN': ({ next_run_at }) => next_run_at,
  WAITING: ({ waiting_files }) => waiting_files,
  SOURCE: ({ source }) => source.uri,
};

const RUN_COLUMNS: Columns<FlowAnswer['recent_runs'][number]> = {
  RUN: ({ id }) => id,
  STATUS: ({ status }) => status,
  STARTED: ({ started_at }) => started_at,
  FILES: ({ counts }) => counts?.files ?? null,
  COMPLETED: ({ counts }) => counts?.completed ?? null,
  FAILED: ({ counts }) => counts?.failed ?? null,
  SIZE: (run) => (run.bytes === null ? null : bytes(run.bytes)),
};

const FILE_COLUMNS: Columns<FlowFileList['data'][number]> = {
  FILE: ({ source_uri }) => source_uri,
  VERSION: ({ version }) => version,
  STATUS: ({ status }) => status,
  TAKEN: ({ taken_at }) => taken_at,
  TRANSFER: ({ transfer_id }) => transfer_id,
};

interface ListOptions extends Common, PageOptions {
  status?: string;
  q?: string;
}

/** Adds the commands that show flows and the files that they took. */
export function addShowCommands(flows: Command): void {
  withCommon(
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

  withCommon(
    flows
      .command('show')
      .description('show a flow, its next run and its last runs')
      .argument('<flow-id>'),
  ).action((id: string, options: Common) =>
    withInstallation((installation) => show(installation, id, options)),
  );

  withCommon(
    withPage(
      flows
        .command('files')
        .description('list the versions of files that a flow took or skipped, newest first')
        .argument('<flow-id>'),
    ),
  ).action((id: string, options: Common & PageOptions) =>
    withInstallation((installation) => files(installation, id, options)),
  );
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
  await printTable(COLUMNS, data, 'No flows match');
  if (pagination.has_more) noteMore(page, data.length, { total });
}

async function show(
  { sql, commands }: Installation,
  id: string,
  { account, json }: Common,
): Promise<void> {
  const { state } = await loadFlow(commands, account, id);
  const flow = await showFlow(sql, state);
  await (json ? printJson(flow) : printFlow(flow));
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
  await printTable(FILE_COLUMNS, data, 'It has taken nothing yet');
  if (pagination.has_more) noteMore(page, data.length, found);
}

/** Returns why a flow or a batch cannot list its folder, and since when. */
export function failureOf({ since, error }: NonNullable<FlowAnswer['failing']>) {
  return { failing: `${error.code}: ${error.message}`, 'failing since': since };
}

/** Prints a flow and its last runs. */
async function printFlow(flow: FlowAnswer): Promise<void> {
  const { source, ready, trigger } = flow;
  const zone = trigger?.time_zone ? ` (${trigger.time_zone})` : '';
  await printFacts({
    id: flow.id,
    name: flow.name,
    status: flow.status,
    source: source.uri,
    pattern: `${source.pattern}${source.recursive ? ', with subfolders' : ''}`,
    ...(source.exclude.length > 0 && { 'leaves out': source.exclude.join(', ') }),
    destination: flow.destination_uri,
    ready: ready.marker === null ? `unchanged for ${ready.unchanged_for}` : `with ${ready.marker}`,
    runs: trigger ? `${trigger.every ? `every ${trigger.every}` : trigger.cron}${zone}` : null,
    ...(flow.after && { after: afterInWords(flow.after) }),
    'last run': flow.last_run_at,
    'last success': flow.last_success_at,
    'next run': flow.next_run_at,
    ...(flow.delayed_by && { 'delayed by': flow.delayed_by }),
    'waiting files': flow.waiting_files,
    ...(flow.failing && failureOf(flow.failing)),
  });
  await print('');
  await printTable(RUN_COLUMNS, flow.recent_runs, 'It has taken nothing yet');
}
