import {
  type BlobGetPropertiesResponse,
  type BlockBlobClient,
  ContainerClient,
  newPipeline,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import type { AzureSettings, EndpointCredentials } from '../../../domain/endpoint.ts';
import { createHttp } from '../http/http.ts';
import type { HttpTimeouts } from '../http/timeouts.ts';
import { isRefused } from './errors.ts';
import { createSdkClient } from './http.ts';

export type AzureCredentials = Extract<EndpointCredentials, { account_key: string } | { sas_token: string }>;

export interface StoreOptions {
  settings: AzureSettings;
  credentials: AzureCredentials;
  maxConnections: number;
  timeouts: HttpTimeouts;
}

/** The container of an endpoint. All requests share the endpoint's connections. */
export interface Store {
  readonly container: ContainerClient;
  readonly connections: number;
  /** A blob whose requests are tried again where the service is busy or a connection breaks. */
  blob(name: string): BlockBlobClient;
  /** One for requests that can't be sent twice: their body is gone, or having been carried out makes them fail. */
  blobOnce(name: string): BlockBlobClient;
  /** What the service says of a blob, with its own words where it refuses. */
  properties(name: string, abortSignal: AbortSignal): Promise<BlobGetPropertiesResponse>;
  /** Lets the answer to the one request that is sent with `signal` go straight to `target`. */
  fill(target: Uint8Array, signal: AbortSignal): void;
  close(): void;
}

const TRIES = 4;
const RETRY_MS = 500;

export function createStore({ settings, credentials, maxConnections, timeouts }: StoreOptions): Store {
  const url = containerUrl(settings);
  const http = createHttp({ secure: url.protocol === 'https:', caPem: settings.ca_pem, maxConnections, timeouts });
  const httpClient = createSdkClient(http);
  if ('sas_token' in credentials) url.search = credentials.sas_token;

  function containerOf(maxTries: number): ContainerClient {
    const key = 'account_key' in credentials ? new StorageSharedKeyCredential(settings.account, credentials.account_key) : undefined;
    const pipeline = newPipeline(key, { httpClient, retryOptions: { maxTries, retryDelayInMs: RETRY_MS } });
    return new ContainerClient(url.href, pipeline);
  }

  const container = containerOf(TRIES);
  const once = containerOf(1);

  async function properties(name: string, abortSignal: AbortSignal): Promise<BlobGetPropertiesResponse> {
    const blob = container.getBlockBlobClient(name);
    try {
      return await blob.getProperties({ abortSignal });
    } catch (error) {
      if (!isRefused(error)) throw error;
      // An answer to HEAD has no body for words.
      const signal = AbortSignal.any([abortSignal]);
      httpClient.fill(Buffer.alloc(1), signal);
      await blob.download(0, 1, { abortSignal: signal });
      throw error;
    }
  }

  return {
    container,
    get connections() {
      return http.connections;
    },
    blob: (name) => container.getBlockBlobClient(name),
    blobOnce: (name) => once.getBlockBlobClient(name),
    properties,
    fill: httpClient.fill,
    close: () => http.close(),
  };
}

/** Without a SAS. */
export function containerUrl({ account, container, endpoint_url }: AzureSettings): URL {
  const service = (endpoint_url ?? `https://${account}.blob.core.windows.net`).replace(/\/+$/, '');
  return new URL(`${service}/${encodeURIComponent(container)}`);
}
