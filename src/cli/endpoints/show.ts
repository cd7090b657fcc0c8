import type * as answers from '../../contract/endpoints/answers.ts';
import { toEndpoint } from '../../contract/endpoints/views.ts';
import { announces, healthOf } from '../../domain/attention.ts';
import { addressIn, type Endpoint } from '../../domain/endpoints/endpoint.ts';
import type { EndpointSettings } from '../../domain/protocols/index.ts';
import { nameOfVia, viaOf } from '../../domain/protocols/via.ts';
import type { EndpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog/queries.ts';
import { type Columns, printTable } from '../program/output.ts';

export function printEndpoints(
  endpoints: ConfiguredEndpoint[],
  health: Map<string, EndpointConnectivity>,
  filtered: boolean,
): Promise<void> {
  const seenOf = ({ endpoint_id }: Endpoint) => health.get(endpoint_id);
  const columns: Columns<ConfiguredEndpoint> = {
    NAME: ({ name }) => name,
    PROTOCOL: ({ settings }) => settings.protocol,
    ADDRESS: ({ settings }) => addressOf(settings),
    'SIGN-IN': ({ sign_in }) => sign_in,
    CONNECTIONS: ({ max_connections }) => max_connections,
    'LAST REACHED': (endpoint) => seenOf(endpoint)?.last_success_at ?? null,
    STATE: (endpoint) => stateOf(toEndpoint(endpoint, seenOf(endpoint), null)),
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

/** Returns the state of an endpoint in words. */
export function stateOf(endpoint: answers.Endpoint): string {
  const { paused, unreachable_since } = endpoint;
  const health = healthOf(endpoint);
  const states = [
    paused ? 'paused' : null,
    unreachable_since === null ? null : `unreachable since ${unreachable_since}`,
    health === 'endpoint_host_key_not_accepted' ? 'host key not accepted' : errorOf(endpoint),
    health === 'endpoint_host_key_expires_soon' ? 'host key expires soon' : null,
    announces(endpoint) ? 'a new host key is announced' : null,
  ].filter((state) => state !== null);
  return states.length === 0 ? 'ready' : states.join(', ');
}

function errorOf({ health, unreachable_since }: answers.Endpoint): string | null {
  if (!health?.error) return null;
  const { error, error_since } = health;
  return unreachable_since === null && error_since !== null
    ? `${error.message} since ${error_since}`
    : error.message;
}
