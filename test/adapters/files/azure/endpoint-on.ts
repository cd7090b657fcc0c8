import {
  type AzureEndpointOptions,
  createAzureEndpoint,
} from '../../../../src/adapters/files/azure/endpoint.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import type { AzureSettings } from '../../../../src/domain/protocols/azure.ts';
import type { Azurite } from '../../../support/file-servers/azure/azurite.ts';

export type Given = Partial<Omit<AzureEndpointOptions, 'settings'>> & {
  settings?: Partial<AzureSettings>;
};

/**
 * Returns an endpoint for the container `container` of an Azurite. Signs in by account key unless
 * other credentials are given.
 */
export function endpointOn(
  { endpointUrl, account, accountKey }: Azurite,
  { settings, ...given }: Given = {},
): FileEndpoint {
  return createAzureEndpoint({
    settings: {
      protocol: 'azure',
      account,
      container: 'container',
      prefix: '',
      endpoint_url: endpointUrl,
      ca_pem: null,
      ...settings,
    },
    credentials: { account_key: accountKey },
    maxConnections: 4,
    ...given,
  });
}
