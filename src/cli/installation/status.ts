import type { Command } from 'commander';
import { FLOW_LATE_MS } from '../../contract/flows/answers.ts';
import { toKey } from '../../contract/keys.ts';
import { COUNTED_TO } from '../../contract/pages.ts';
import { CONSUMER_SLOW_SECONDS } from '../../contract/projections.ts';
import { COUNTED_FAILURES } from '../../contract/transfers/answers.ts';
import { type Endpoint, hasHostKey, newHostKeysOf } from '../../domain/endpoints/endpoint.ts';
import { TRANSFER_STATUSES } from '../../domain/transfers/transfer.ts';
import type { Installation } from '../../installation.ts';
import { queueDepth } from '../../processes/dispatch/job-table/figures.ts';
import { liveMovers } from '../../processes/dispatch/live-movers.ts';
import { endpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import { showFlows } from '../../processes/flows/show-flows.ts';
import { type ProjectionStatus, projectionStatus } from '../../processes/projections/status.ts';
import { listDeliveries } from '../../processes/webhooks/delivery-table/read.ts';
import { listEndpoints, listKeys } from '../../projections/catalog/queries.ts';
import { listFlows } from '../../projections/flows/queries.ts';
import { summarizeTransfers } from '../../projections/transfers/summary.ts';
import { stateOf as stateOfEndpoint } from '../endpoints/show.ts';
import { EXIT } from '../program/exit-codes.ts';
import { print, printJson } from '../program/output.ts';
import { accountOption } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { withInstallation } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';

const DAY_MS = 24 * 3_600_000;
/** The newest flows that are looked at. */
const FLOWS = 1_000;

/** What one part of the installation does. */
interface Check {
  name: string;
  /** `problem`: an operator must act now. `warning`: an operator must act soon. */
  state: 'ok' | 'warning' | 'problem';
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
    ({ running, lag_seconds }) => running && lag_seconds >= CONSUMER_SLOW_SECONDS,
  );
  const behind = all.filter(({ lag_events }) => lag_events > 0).length;
  return {
    name: 'log',
    state: stopped.length > 0 || slow.length > 0 ? 'problem' : 'ok',
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
    state: live.length === 0 ? 'problem' : 'ok',
    detail:
      `${many(live.length, 'process', 'processes')}, ${slots} slots; ` +
      `${many(all('moving'), 'transfer moves', 'transfers move')}, ${all('due')} wait, ` +
      `${all('later')} wait for a retry`,
    items: live.length === 0 ? ['no process with the role mover runs'] : [],
  };
}

async function transfers({ sql }: Installation, account: string): Promise<Check> {
  const from = new Date(Date.now() - DAY_MS).toISOString();
  const { byStatus, failures, retried } = await summarizeTransfers(
    sql,
    account,
    { from },
    COUNTED_FAILURES,
  );
  const counts = TRANSFER_STATUSES.filter((status) => byStatus[status] > 0);
  const open = byStatus.failed - retried;
  return {
    name: 'transfers',
    state: open > 0 ? 'problem' : 'ok',
    detail:
      `of ${account} in 24 hours: ` +
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

async function endpoints({ sql }: Installation): Promise<Check> {
  const [all, health] = await Promise.all([listEndpoints(sql), endpointConnectivity(sql)]);
  const isIll = ({ endpoint_id, unreachable_since }: Endpoint) =>
    unreachable_since !== null || Boolean(health.get(endpoint_id)?.error);
  const hasNewKey = (endpoint: Endpoint) =>
    newHostKeysOf(endpoint).length > 0 ||
    (hasHostKey(endpoint.settings) && endpoint.settings.host_key_sha256 === null);
  const noted = all.filter((endpoint) => isIll(endpoint) || hasNewKey(endpoint));
  return {
    name: 'endpoints',
    state: noted.some(isIll) ? 'problem' : noted.length > 0 ? 'warning' : 'ok',
    detail: `${all.length}, of which ${all.filter(({ paused }) => paused).length || 'none'} paused`,
    items: noted.map(
      (endpoint) =>
        `${endpoint.name}: ${stateOfEndpoint(endpoint, health.get(endpoint.endpoint_id))}`,
    ),
  };
}

async function flows({ sql }: Installation, account: string): Promise<Check> {
  const { flows, total } = await listFlows(sql, account, {}, { limit: FLOWS, offset: 0 });
  const items = (await showFlows(sql, flows)).flatMap(
    ({ name, failing, delayed_by, next_run_at }) => {
      if (failing !== null)
        return [`${name} cannot list its folder since ${failing.since}: ${failing.error.message}`];
      const isLate =
        delayed_by === null &&
        next_run_at !== null &&
        Date.now() - Date.parse(next_run_at) > FLOW_LATE_MS;
      return isLate ? [`${name} was due at ${next_run_at}: does the role monitor run?`] : [];
    },
  );
  return {
    name: 'flows',
    state: items.length > 0 ? 'problem' : 'ok',
    detail: `${total} of ${account}`,
    items,
  };
}

async function deliveries({ sql }: Installation, account: string): Promise<Check> {
  const filter = { accountId: account, status: 'failed' as const };
  const { total } = await listDeliveries(sql, { ...filter, limit: 1, offset: 0 });
  const more = total >= COUNTED_TO ? ' or more' : '';
  return {
    name: 'webhooks',
    state: total > 0 ? 'problem' : 'ok',
    detail: `${total === 0 ? 'no' : total}${more} failed deliveries of ${account}`,
    items: total > 0 ? ['`waybill webhooks deliveries --status failed` lists them'] : [],
  };
}

async function keys({ sql }: Installation): Promise<Check> {
  const active = (await listKeys(sql)).map(toKey).filter(({ status }) => status === 'active');
  const ending = active.filter(({ expiring_soon }) => expiring_soon);
  return {
    name: 'keys',
    state: ending.length > 0 ? 'warning' : 'ok',
    detail: `${active.length} active`,
    items: ending.map(({ name, expires_at }) => `${name} expires at ${expires_at}`),
  };
}

function many(count: number, one: string, more: string): string {
  return `${count} ${count === 1 ? one : more}`;
}
