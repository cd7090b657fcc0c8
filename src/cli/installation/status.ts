import type { Command } from 'commander';
import type { Endpoint } from '../../contract/endpoints/answers.ts';
import { toEndpoint } from '../../contract/endpoints/views.ts';
import { toKey } from '../../contract/keys.ts';
import { COUNTED_TO } from '../../contract/pages.ts';
import { COUNTED_FAILURES } from '../../contract/transfers/answers.ts';
import {
  announces,
  expiresSoon,
  healthOf,
  isBehind,
  isLate,
  notRetried,
  RECENT_HOURS,
  type Rule,
  recentSince,
  SEVERITY,
  type Severity,
  WAITED_MINUTES,
  WAITING_STATUSES,
  waitingUntil,
} from '../../domain/attention.ts';
import { TRANSFER_STATUSES } from '../../domain/transfers/transfer.ts';
import type { Installation } from '../../installation.ts';
import { queueDepth } from '../../processes/dispatch/job-table/figures.ts';
import { liveMovers } from '../../processes/dispatch/live-movers.ts';
import { findWaits } from '../../processes/dispatch/waiting-for.ts';
import { endpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import { showFlows } from '../../processes/flows/show-flows.ts';
import { type ProjectionStatus, projectionStatus } from '../../processes/projections/status.ts';
import { listDeliveries } from '../../processes/webhooks/delivery-table/read.ts';
import { listEndpoints, listKeys } from '../../projections/catalog/queries.ts';
import { listFlows } from '../../projections/flows/queries.ts';
import { listTransfers } from '../../projections/transfers/queries.ts';
import { summarizeTransfers } from '../../projections/transfers/summary.ts';
import { stateOf as stateOfEndpoint } from '../endpoints/show.ts';
import { EXIT } from '../program/exit-codes.ts';
import { print, printJson } from '../program/output.ts';
import { accountOption } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { withInstallation } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';

/** The newest flows that are looked at. */
const FLOWS = 1_000;

/** What one part of the installation does. */
interface Check {
  name: string;
  state: 'ok' | Severity;
  detail: string;
  /** What needs attention, one line each. */
  items: string[];
}

interface Options {
  account: string;
  json?: boolean;
}

export function addStatusCommand(program: Command): void {
  program
    .command('status')
    .description('show what runs, what waits and what needs attention; exit code 1 if it does')
    .option(...accountOption('transfers, flows and webhooks'))
    .option('--json', 'one JSON line a part')
    .action(({ account, json }: Options) =>
      withInstallation(async (installation) => {
        failUntilVerdict();
        const checks = await check(installation, account);
        if (checks.every(({ state }) => state !== 'problem')) terminal().exitCode = EXIT.done;
        if (json) for (const part of checks) await printJson(part);
        else
          for (const { name, state, detail, items } of checks) {
            await print(`${state.padEnd(9)}${name.padEnd(13)}${detail}`);
            for (const item of items) await print(`${' '.repeat(22)}${item}`);
          }
      }),
    );
}

function check(installation: Installation, account: string): Promise<Check[]> {
  const parts = () =>
    Promise.all([
      readModels(installation),
      movers(installation),
      transfers(installation, account),
      waiting(installation, account),
      endpoints(installation),
      flows(installation, account),
      deliveries(installation, account),
      keys(installation),
    ]);
  return fromReadModels(installation, ['catalog', 'transfers', 'flows'], parts, () => 1);
}

async function readModels(installation: Installation): Promise<Check> {
  const all = await projectionStatus(installation);
  const stopped = all.filter(({ running }) => !running);
  const slow = all.filter(
    ({ running, lag_seconds }) => running && isBehind({ state: 'running', lag_seconds }),
  );
  const behind = all.filter(({ lag_events }) => lag_events > 0).length;
  return {
    name: 'log',
    state: stateIf(stopped.length > 0 || slow.length > 0, 'consumer_behind'),
    detail:
      behind === 0
        ? `all ${all.length} consumers are at its end`
        : `${behind} of ${all.length} consumers are behind its end`,
    items: [
      ...(stopped.length > 0 ? [unfollowed(stopped, all)] : []),
      ...slow.map(({ name, lag_seconds }) => `${name} is ${Math.round(lag_seconds)} s behind`),
    ],
  };
}

function unfollowed(stopped: ProjectionStatus[], all: ProjectionStatus[]): string {
  if (stopped.length === all.length) return 'no process follows it: does the service run?';
  return `no process follows it for ${stopped.map(({ name }) => name).join(', ')}`;
}

async function movers({ sql }: Installation): Promise<Check> {
  const [live, queue] = await Promise.all([liveMovers(sql), queueDepth(sql)]);
  const slots = live.reduce((sum, mover) => sum + mover.slots, 0);
  const all = (jobs: 'moving' | 'due' | 'later') => queue.reduce((sum, of) => sum + of[jobs], 0);
  return {
    name: 'movers',
    state: stateIf(live.length === 0, 'no_mover'),
    detail:
      `${many(live.length, 'process', 'processes')}, ${slots} slots; ` +
      `${many(all('moving'), 'transfer moves', 'transfers move')}, ${all('due')} wait, ` +
      `${all('later')} wait for a retry`,
    items: live.length === 0 ? ['no process with the role mover runs'] : [],
  };
}

async function transfers({ sql }: Installation, account: string): Promise<Check> {
  const from = recentSince();
  const { byStatus, failures, retried } = await summarizeTransfers(
    sql,
    account,
    { from },
    COUNTED_FAILURES,
  );
  const counts = TRANSFER_STATUSES.filter((status) => byStatus[status] > 0);
  const open = notRetried({ by_status: byStatus, retried });
  return {
    name: 'transfers',
    state: stateIf(open > 0, 'transfers_failed'),
    detail:
      `of ${account} in ${RECENT_HOURS} hours: ` +
      (counts.map((status) => `${byStatus[status]} ${status}`).join(', ') || 'none'),
    items:
      open === 0
        ? []
        : [
            `${many(open, 'failed transfer was', 'failed transfers were')} not retried`,
            ...failures.map(
              ({ transfers, code, lastFailedAt }) =>
                `${transfers} ${code}, the last at ${lastFailedAt}`,
            ),
          ],
  };
}

async function waiting({ sql }: Installation, account: string): Promise<Check> {
  const to = waitingUntil();
  const found = await Promise.all(
    WAITING_STATUSES.map(async (status) => {
      const filter = { status, to };
      const oldestFirst = { limit: 1, offset: 0, sort: 'created_at' } as const;
      const { transfers, total } = await listTransfers(sql, account, filter, oldestFirst);
      return { status, oldest: transfers[0], total };
    }),
  );
  const waits = await findWaits(
    sql,
    found.flatMap(({ oldest }) => oldest ?? []),
  );
  const all = found.reduce((sum, { total }) => sum + total, 0);
  return {
    name: 'waiting',
    state: stateIf(all > 0, 'transfers_waiting'),
    detail:
      `${all === 0 ? 'no transfers' : many(all, 'transfer', 'transfers')} of ${account} ` +
      `for more than ${WAITED_MINUTES} minutes`,
    items: found.flatMap(({ status, oldest, total }) => {
      if (oldest === undefined) return [];
      const { transfer_id, created_at } = oldest.facts;
      const reason = waits.get(transfer_id)?.message;
      return [
        `${total} ${status}, the oldest ${transfer_id} since ${created_at}` +
          (reason === undefined ? '' : `: ${reason}`),
      ];
    }),
  };
}

async function endpoints({ sql }: Installation): Promise<Check> {
  const [configured, health] = await Promise.all([listEndpoints(sql), endpointConnectivity(sql)]);
  const all = configured.map((endpoint) =>
    toEndpoint(endpoint, health.get(endpoint.endpoint_id), null),
  );
  const rulesOf = (endpoint: Endpoint): Rule[] => {
    const found = healthOf(endpoint);
    return [
      ...(found === 'reachable' || found === 'not_tried' ? [] : [found]),
      ...(announces(endpoint) ? ['endpoint_announces_host_key' as const] : []),
    ];
  };
  const noted = all.filter((endpoint) => rulesOf(endpoint).length > 0);
  return {
    name: 'endpoints',
    state: worst(noted.flatMap(rulesOf)),
    detail: `${all.length}, of which ${all.filter(({ paused }) => paused).length || 'none'} paused`,
    items: noted.map((endpoint) => `${endpoint.name}: ${stateOfEndpoint(endpoint)}`),
  };
}

async function flows({ sql }: Installation, account: string): Promise<Check> {
  const { flows, total } = await listFlows(sql, account, {}, { limit: FLOWS, offset: 0 });
  const found = (await showFlows(sql, flows)).flatMap((flow): { rule: Rule; item: string }[] => {
    const { name, failing, next_run_at } = flow;
    if (failing !== null) {
      const { since, error } = failing;
      const item = `${name} cannot list its folder since ${since}: ${error.message}`;
      return [{ rule: 'flow_failing', item }];
    }
    if (!isLate(flow)) return [];
    return [
      { rule: 'flow_late', item: `${name} was due at ${next_run_at}: does the role monitor run?` },
    ];
  });
  return {
    name: 'flows',
    state: worst(found.map(({ rule }) => rule)),
    detail: `${total} of ${account}`,
    items: found.map(({ item }) => item),
  };
}

async function deliveries({ sql }: Installation, account: string): Promise<Check> {
  const filter = { accountId: account, status: 'failed' as const };
  const { total } = await listDeliveries(sql, { ...filter, limit: 1, offset: 0 });
  const more = total >= COUNTED_TO ? ' or more' : '';
  return {
    name: 'webhooks',
    state: stateIf(total > 0, 'deliveries_failed'),
    detail: `${total === 0 ? 'no' : total}${more} failed deliveries of ${account}`,
    items: total > 0 ? ['`waybill webhooks deliveries --status failed` lists them'] : [],
  };
}

async function keys({ sql }: Installation): Promise<Check> {
  const active = (await listKeys(sql)).map(toKey).filter(({ status }) => status === 'active');
  const ending = active.filter(expiresSoon);
  return {
    name: 'keys',
    state: stateIf(ending.length > 0, 'key_expires_soon'),
    detail: `${active.length} active`,
    items: ending.map(({ name, expires_at }) => `${name} expires at ${expires_at}`),
  };
}

function stateIf(applies: boolean, rule: Rule): Check['state'] {
  return applies ? SEVERITY[rule] : 'ok';
}

/** Returns the state of a part for which these rules apply. */
function worst(rules: Rule[]): Check['state'] {
  const severities: Severity[] = rules.map((rule) => SEVERITY[rule]);
  if (severities.includes('problem')) return 'problem';
  return severities.length > 0 ? 'warning' : 'ok';
}

function many(count: number, one: string, more: string): string {
  return `${count} ${count === 1 ? one : more}`;
}
