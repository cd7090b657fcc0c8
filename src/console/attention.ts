/*
 * What needs attention. The counts in the navigation, *Home* and the lists with `?state=` in their
 * address use the same rules. `waybill status` has its own, in src/cli/installation/status.ts.
 */
import type {
  EndpointList,
  FlowList,
  KeyList,
  ProjectionList,
  TransferSummary,
} from './api/api-types.ts';
import { CONSUMER_SLOW_SECONDS, FLOW_LATE_MS } from './api/limits.ts';
import { healthOf, newHostKeysOf, REJECTED } from './components/values/endpoint-health.tsx';

/** Returns how many transfers have failed, without those that were retried. */
export const notRetried = ({ by_status, retried }: TransferSummary) => by_status.failed - retried;

export const unreachable = (endpoints: EndpointList) =>
  endpoints.data.filter(({ unreachable_since }) => unreachable_since !== null);

/** Returns the endpoints whose servers answer, and rejected the last sign-in. */
export const rejecting = (endpoints: EndpointList) =>
  endpoints.data.filter((endpoint) => healthOf(endpoint) === REJECTED);

/** Returns the endpoints that may not work. */
export const doubtful = (endpoints: EndpointList) =>
  endpoints.data.filter((endpoint) => healthOf(endpoint).tone === 'warning');

/** Returns the endpoints that announce a host key which is not accepted. */
export const announcing = (endpoints: EndpointList) =>
  endpoints.data.filter((endpoint) => newHostKeysOf(endpoint).length > 0);

/** Returns the flows that cannot list their folder. */
export const failing = (flows: FlowList) => flows.data.filter((flow) => flow.failing !== null);

/** Returns the flows that did not run when they were due. */
export const late = (flows: FlowList) =>
  flows.data.filter(
    ({ failing, delayed_by, next_run_at }) =>
      failing === null && delayed_by === null && next_run_at !== null && isLate(next_run_at),
  );

/** Returns true if a run that is due since then should have begun. */
export function isLate(due: string): boolean {
  return Date.now() - Date.parse(due) > FLOW_LATE_MS;
}

/** Returns the consumers that do not run, or are far behind the end of the log. */
export const slow = (consumers: ProjectionList) =>
  consumers.data.filter(
    ({ state, lag_seconds }) => state !== 'running' || lag_seconds >= CONSUMER_SLOW_SECONDS,
  );

export const expiring = (keys: KeyList) =>
  keys.data.filter(({ status, expiring_soon }) => status === 'active' && expiring_soon);
