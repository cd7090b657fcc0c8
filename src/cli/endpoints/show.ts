import {
  addressIn,
  type Endpoint,
  hasHostKey,
  newHostKeysOf,
} from '../../domain/endpoints/endpoint.ts';
import { hostKeysOf } from '../../domain/protocols/host-keys.ts';
import { type EndpointSettings, protocolOf } from '../../domain/protocols/index.ts';
import { nameOfVia, viaOf } from '../../domain/protocols/via.ts';
import type { EndpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import { type Columns, printTable } from '../program/output.ts';

/** Returns an endpoint as `endpoints list --json` prints it. */
export function shown(endpoint: Endpoint) {
  const {
    endpoint_id,
    name,
    settings,
    sign_in,
    max_connections,
    accounts,
    overwrite,
    bandwidth = null,
    paused,
    unreachable_since,
  } = endpoint;
  return {
    id: endpoint_id,
    name,
    ...settings,
    ...(protocolOf(settings).via && { via: viaOf(settings) }),
    ...(hasHostKey(settings) && {
      host_keys: hostKeysOf(settings),
      announced_host_keys: newHostKeysOf(endpoint),
    }),
    sign_in,
    max_connections,
    accounts,
    overwrite,
    bandwidth,
    paused,
    unreachable_since,
  };
}

export function printEndpoints(
  endpoints: Endpoint[],
  health: Map<string, EndpointConnectivity>,
  filtered: boolean,
): Promise<void> {
  const healthOf = ({ endpoint_id }: Endpoint) => health.get(endpoint_id);
  const columns: Columns<Endpoint> = {
    NAME: ({ name }) => name,
    PROTOCOL: ({ settings }) => settings.protocol,
    ADDRESS: ({ settings }) => addressOf(settings),
    'SIGN-IN': ({ sign_in }) => sign_in,
    CONNECTIONS: ({ max_connections }) => max_connections,
    'LAST REACHED': (endpoint) => healthOf(endpoint)?.last_success_at ?? null,
    STATE: (endpoint) => stateOf(endpoint, healthOf(endpoint)),
  };
  const none = filtered
    ? 'No endpoints match'
    : 'There are no endpoints; `waybill endpoints add --file FILE` configures one';
  return printTable(columns, endpoints, none);
}

/** Returns the address of an endpoint, with its user and its hop. */
export function addressOf(settings: EndpointSettings): string {
  const user = 'username' in settings ? `${settings.username}@` : '';
  const via = viaOf(settings);
  return `${user}${addressIn(settings)}${via ? ` via ${nameOfVia(via)}` : ''}`;
}

export function stateOf(endpoint: Endpoint, health: EndpointConnectivity | undefined): string {
  const { paused, unreachable_since, settings } = endpoint;
  const states = [
    paused ? 'paused' : null,
    unreachable_since === null ? null : `unreachable since ${unreachable_since}`,
    hasHostKey(settings) && settings.host_key_sha256 === null
      ? 'host key not accepted'
      : errorOf(health, unreachable_since === null),
    newHostKeysOf(endpoint).length > 0 ? 'a new host key is announced' : null,
  ].filter((state) => state !== null);
  return states.length === 0 ? 'ready' : states.join(', ');
}

function errorOf(health: EndpointConnectivity | undefined, dated: boolean): string | null {
  if (!health?.error) return null;
  const { error, error_since } = health;
  return dated && error_since !== null ? `${error.message} since ${error_since}` : error.message;
}
