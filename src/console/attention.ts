/*
 * What needs attention, by the rules of src/domain/attention.ts. The counts in the navigation,
 * *Home* and the lists with `?state=` in their address use them.
 */
import {
  announces,
  type EndpointHealth,
  expiresSoon,
  healthOf,
  isBehind,
  isLate,
  type Rule,
  SEVERITY,
} from '../domain/attention.ts';
import type { EndpointList, FlowList, KeyList, ProjectionList } from './api/api-types.ts';

const TONES = { problem: 'bad', warning: 'warning' } as const;

export const toneOf = (rule: Rule) => TONES[SEVERITY[rule]];

const withHealth =
  (...states: EndpointHealth[]) =>
  (endpoints: EndpointList) =>
    endpoints.data.filter((endpoint) => states.includes(healthOf(endpoint)));

export const unreachable = withHealth('endpoint_unreachable');

/** Returns the endpoints whose servers answer, and rejected the last sign-in. */
export const rejecting = withHealth('endpoint_rejects_sign_in');

/** Returns the endpoints whose servers show a key or certificate that is not trusted. */
export const notTrusted = withHealth('endpoint_not_trusted');

/** Returns the endpoints that may not work. */
export const doubtful = withHealth(
  'endpoint_probe_failed',
  'endpoint_host_key_not_accepted',
  'endpoint_host_key_expires_soon',
);

/** Returns the endpoints that announce a host key which is not accepted. */
export const announcing = (endpoints: EndpointList) => endpoints.data.filter(announces);

/** Returns the flows that cannot list their folder. */
export const failing = (flows: FlowList) => flows.data.filter((flow) => flow.failing !== null);

/** Returns the flows that did not run when they were due. */
export const late = (flows: FlowList) => flows.data.filter(isLate);

/** Returns the consumers that do not run, or are far behind the end of the log. */
export const behind = (consumers: ProjectionList) => consumers.data.filter(isBehind);

export const expiring = (keys: KeyList) => keys.data.filter(expiresSoon);
