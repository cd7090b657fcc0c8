import {
  type BlobGetPropertiesResponse,
  type BlobHTTPHeaders,
  type BlockBlobClient,
  ContainerClient,
  newPipeline,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import type { AzureCredentials, AzureSettings } from '../../../domain/protocols/azure.ts';
import { createHttp } from '../http/http.ts';
import { pageInPlace } from '../http/other-service.ts';
import type { LastName } from '../http/replace.ts';
import { sentBytes } from '../http/sent-bytes.ts';
import type { HttpTimeouts } from '../http/timeouts.ts';
import type { Tunnel } from '../http/tunnel.ts';
import { MTIME_KEY, toRfc3339, type UnixTime } from '../modification-time.ts';
import type { ContentHeaders, OpenDestination } from '../port.ts';
import { isRefused } from './errors.ts';
import { createSdkClient } from './http.ts';

export interface StoreOptions {
  settings: AzureSettings;
  credentials: AzureCredentials;
  maxConnections: number;
  timeouts: HttpTimeouts;
  tunnel: Tunnel | null;
}

/** The container of an endpoint. All requests share the endpoint's connections. */
export interface Store {
  readonly container: ContainerClient;
  readonly connections: number;
  readonly lastName: LastName;
  /** Returns a blob whose requests are retried if the service is busy or a connection breaks. */
  blob(name: string): BlockBlobClient;
  /**
   * Returns a blob whose requests are sent once: their body can't be sent again, or a second try
   * would fail after the first one succeeded.
   */
  blobOnce(name: string): BlockBlobClient;
  /**
   * Returns what the service reports about a blob. If it rejects the request, the error has the
   * service's own text. Throws FileError for an answer without an ETag.
   */
  properties(name: string, abortSignal: AbortSignal): Promise<BlobGetPropertiesResponse>;
  /** Reads the answer to the one request sent with `signal` straight into `target`. */
  fill(target: Uint8Array, signal: AbortSignal): void;
  /**
   * Returns a function that sends an upload of `bytes` bytes when the pace allows. `upload` passes
   * its signal on, which aborts with `signal`. The client counts the bytes that it sends with it,
   * and keeps them to the pace. An upload that is sent again counts once.
   */
  counted(
    options: Pick<OpenDestination, 'acknowledged' | 'pace'>,
    bytes: number,
    signal: AbortSignal,
  ): <Answer>(upload: (abortSignal: AbortSignal) => Promise<Answer>) => Promise<Answer>;
  close(): void;
}

const TRIES = 4;
const RETRY_MS = 500;

export function createStore({
  settings,
  credentials,
  maxConnections,
  timeouts,
  tunnel,
}: StoreOptions): Store {
  const url = containerUrl(settings);
  const http = createHttp({
    secure: url.protocol === 'https:',
    caPem: settings.ca_pem,
    maxConnections,
    timeouts,
    tunnel,
  });
  const httpClient = createSdkClient(http);
  if ('sas_token' in credentials) url.search = credentials.sas_token;

  function containerOf(maxTries: number): ContainerClient {
    const key =
      'account_key' in credentials
        ? new StorageSharedKeyCredential(settings.account, credentials.account_key)
        : undefined;
    const pipeline = newPipeline(key, {
      httpClient,
      retryOptions: { maxTries, retryDelayInMs: RETRY_MS },
    });
    return new ContainerClient(url.href, pipeline);
  }

  const container = containerOf(TRIES);
  const once = containerOf(1);

  async function properties(
    name: string,
    abortSignal: AbortSignal,
  ): Promise<BlobGetPropertiesResponse> {
    const blob = container.getBlockBlobClient(name);
    try {
      const found = await blob.getProperties({ abortSignal });
      if (!found.etag) throw pageInPlace(name, 'open');
      return found;
    } catch (error) {
      if (!isRefused(error)) throw error;
      // The answer to a HEAD has no body and so no text. A GET of the first byte has one.
      const signal = AbortSignal.any([abortSignal]);
      httpClient.fill(Buffer.alloc(1), signal);
      await blob.download(0, 1, { abortSignal: signal });
      throw error;
    }
  }

  return {
    container,
    lastName: { taken: false },
    get connections() {
      return http.connections;
    },
    blob: (name) => container.getBlockBlobClient(name),
    blobOnce: (name) => once.getBlockBlobClient(name),
    properties,
    fill: httpClient.fill,
    counted(options, bytes, signal) {
      const sent = sentBytes(options, bytes);
      if (!sent) return (upload) => upload(signal);
      // The SDK passes on nothing else that could identify the request.
      const own = AbortSignal.any([signal]);
      httpClient.count(sent, own);
      return (upload) => sent.whenPaced(() => upload(own));
    },
    close: () => http.close(),
  };
}

/** Returns what a new blob has beside its content. */
export function attributesOf({
  modifiedAt,
  headers,
}: Pick<OpenDestination, 'modifiedAt' | 'headers'>) {
  return { ...metadataOf(modifiedAt), ...headersOf(headers) };
}

/** Returns the headers of a new blob, as the SDK names them. */
function headersOf(headers: ContentHeaders = {}) {
  const blobHTTPHeaders = {
    blobCacheControl: headers.cacheControl,
    blobContentDisposition: headers.contentDisposition,
    blobContentEncoding: headers.contentEncoding,
    blobContentLanguage: headers.contentLanguage,
    blobContentType: headers.contentType,
  };
  return { blobHTTPHeaders } as { blobHTTPHeaders: BlobHTTPHeaders };
}

/** Returns the metadata that has the modification time, in rclone's form. */
function metadataOf(time: UnixTime | undefined): { metadata?: Record<string, string> } {
  return time === undefined ? {} : { metadata: { [MTIME_KEY]: toRfc3339(time, 9) } };
}

/** Returns the URL of the container, without a SAS. */
export function containerUrl({ account, container, endpoint_url }: AzureSettings): URL {
  const service = (endpoint_url ?? `https://${account}.blob.core.windows.net`).replace(/\/+$/, '');
  return new URL(`${service}/${encodeURIComponent(container)}`);
}
