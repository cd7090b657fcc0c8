import { limitAt } from '../../domain/endpoints/bandwidth.ts';
import { type Endpoint, hasHostKey, newHostKeysOf } from '../../domain/endpoints/endpoint.ts';
import { hostKeysOf } from '../../domain/protocols/host-keys.ts';
import { protocolOf } from '../../domain/protocols/index.ts';
import { viaOf } from '../../domain/protocols/via.ts';
import { TRANSFER_ERRORS, type TransferErrorCode } from '../../domain/transfers/errors.ts';
import type * as answers from './answers.ts';

/** The last observations of an endpoint. The answer adds what to do about the error. */
type Health = Omit<answers.EndpointHealth, 'error'> & {
  error: { code: TransferErrorCode; message: string } | null;
};

/** Returns the fields of an endpoint that clients may see. */
export function toEndpoint(
  endpoint: Endpoint & { revision: number },
  health: Health | undefined,
  /** The only account that the client may know of; null for all. */
  account: string | null,
): answers.Endpoint {
  const { endpoint_id, name, settings, max_connections, accounts, overwrite } = endpoint;
  const {
    bandwidth = null,
    sign_in,
    paused,
    unreachable_since,
    revision,
    configured_at,
  } = endpoint;
  return {
    id: endpoint_id,
    name,
    ...settings,
    ...(hasHostKey(settings)
      ? {
          host_keys: hostKeysOf(settings),
          announced_host_keys: newHostKeysOf(endpoint).map(
            ({ sha256, key_type, announced_at }) => ({ sha256, key_type, announced_at }),
          ),
        }
      : {}),
    ...(protocolOf(settings).via && { via: viaOf(settings) }),
    max_connections,
    accounts: account === null ? accounts : (accounts?.filter((name) => name === account) ?? null),
    overwrite,
    bandwidth,
    bandwidth_now: limitAt(bandwidth, new Date()),
    has_credentials: sign_in,
    paused,
    unreachable_since,
    health: health
      ? {
          ...health,
          error: health.error && {
            ...health.error,
            advice: TRANSFER_ERRORS[health.error.code].advice,
          },
        }
      : null,
    revision,
    configured_at,
  };
}
