import { TRANSFER_ERRORS } from '../../domain/transfer-errors.ts';
import type { EndpointHealth } from '../../processes/reachability.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog-queries.ts';
import type { Endpoint } from './endpoint-schemas.ts';

/** Everything of an endpoint that may be shown. */
export function toEndpoint(endpoint: ConfiguredEndpoint, health: EndpointHealth | undefined): Endpoint {
  const { endpoint_id, name, settings, max_connections, accounts, overwrite } = endpoint;
  const { sign_in, paused, unreachable_since, revision, configured_at } = endpoint;
  return {
    id: endpoint_id,
    name,
    ...settings,
    max_connections,
    accounts,
    overwrite,
    has_credentials: sign_in,
    paused,
    unreachable_since,
    health: health ? { ...health, error: health.error && { ...health.error, advice: TRANSFER_ERRORS[health.error.code].advice } } : null,
    revision,
    configured_at,
  };
}
