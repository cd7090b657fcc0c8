import type { Readable } from 'node:stream';
import {
  GetObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandInput,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3';
import type { S3Credentials, S3Settings } from '../../../domain/protocols/s3.ts';
import { createHttp, type SdkRequest, type SdkResponse, type SendOptions } from '../http/http.ts';
import { pageInPlace } from '../http/other-service.ts';
import type { LastName } from '../http/replace.ts';
import type { HttpTimeouts } from '../http/timeouts.ts';
import type { Tunnel } from '../http/tunnel.ts';
import { serverAnswer } from './errors.ts';
import {
  answerOf,
  createFirstTries,
  type FirstTries,
  type ObjectAnswer,
  type ObjectCommand,
} from './first-try.ts';

export interface StoreOptions {
  settings: S3Settings;
  credentials: S3Credentials;
  maxConnections: number;
  timeouts: HttpTimeouts;
  tunnel: Tunnel | null;
}

/** The bucket of an endpoint, with a client whose requests share the endpoint's connections. */
export interface Store {
  readonly settings: S3Settings;
  readonly s3: S3Client;
  readonly connections: number;
  /** What the server has shown to lack: conditions of a PUT, or the quotes of an ETag in one. */
  readonly lacks: Set<'IfMatch' | 'IfNoneMatch' | 'quotes'>;
  readonly lastName: LastName;
  /** Returns the URL that requests to the bucket use. */
  url(): URL;
  /** Sends a request for one object as `s3` does, with a fraction of its CPU time. */
  send(command: ObjectCommand, options: SendOptions): Promise<ObjectAnswer>;
  /**
   * Returns what the server reports about an object. If it rejects the request, the error has the
   * text of the error document. Throws FileError for an answer that names no version.
   */
  head(
    key: string,
    signal: AbortSignal,
    input?: Partial<HeadObjectCommandInput>,
  ): Promise<ObjectAnswer>;
  close(): void;
}

/** Of a command whose first try was sent before: what came of it. */
interface TriedOptions extends SendOptions {
  tried?: Promise<SdkResponse>[];
}

interface AuthScheme {
  name: string;
  signingRegion: string;
  signingName: string;
}

const ATTEMPTS = 3;

const silent = () => {};

export function createStore({
  settings,
  credentials,
  maxConnections,
  timeouts,
  tunnel,
}: StoreOptions): Store {
  const endpoint = new URL(settings.endpoint_url ?? regionalEndpoint(settings.region));
  const secure = endpoint.protocol === 'https:';
  const http = createHttp({ secure, caPem: settings.ca_pem, maxConnections, timeouts, tunnel });
  const s3 = new S3Client({
    endpoint: endpoint.href,
    region: settings.region,
    forcePathStyle: settings.force_path_style,
    credentials: {
      accessKeyId: credentials.access_key_id,
      secretAccessKey: credentials.secret_access_key,
    },
    requestHandler: {
      ...http,
      handle: (request: SdkRequest, options: TriedOptions) =>
        options.tried?.pop() ?? http.handle(request, options),
    } as unknown as NonNullable<S3ClientConfig['requestHandler']>,
    retryMode: 'standard',
    maxAttempts: ATTEMPTS,
    // The adapter sends its own checksums with the parts and counts every byte.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // The SDK would print a warning for each part whose body can't be sent again.
    logger: { trace: silent, debug: silent, info: silent, warn: silent, error: silent },
    ...NOT_FROM_THE_ENVIRONMENT,
  });
  const signsPayloads = !secure && !isLoopback(endpoint.hostname);
  if (!signsPayloads) leavePayloadsUnsigned(s3);
  let firstTries: FirstTries | null | undefined;

  function place() {
    const { bucket: Bucket, region: Region, force_path_style: ForcePathStyle } = settings;
    return s3.config.endpointProvider({ Bucket, Region, ForcePathStyle, Endpoint: endpoint.href });
  }

  /** Returns null if the bucket needs other signatures. */
  function openFirstTries(): FirstTries | null {
    const { url, properties } = place();
    const [scheme] = (properties?.authSchemes ?? []) as AuthScheme[];
    if (scheme?.name !== 'sigv4') return null;
    const signer = {
      accessKeyId: credentials.access_key_id,
      secretAccessKey: credentials.secret_access_key,
      region: scheme.signingRegion,
      service: scheme.signingName,
    };
    return createFirstTries(url, signer, signsPayloads);
  }

  async function send(command: ObjectCommand, options: SendOptions): Promise<ObjectAnswer> {
    if (firstTries === undefined) firstTries = openFirstTries();
    // The SDK corrects the clock when a server says that it is wrong.
    const now = new Date(Date.now() + s3.config.systemClockOffset);
    const request = firstTries?.requestOf(command, now);
    if (!request) return s3.send(command as GetObjectCommand, options);
    const trying = http.handle(request, options);
    const answer = await trying.catch(() => null);
    if (answer && answer.response.statusCode < 300) {
      if (request.method !== 'GET') await discard(answer.response.body);
      return answerOf(answer);
    }
    const tried: TriedOptions = { ...options, tried: [trying] };
    return s3.send(command as GetObjectCommand, tried);
  }

  return {
    settings,
    s3,
    lacks: new Set(),
    lastName: { taken: false },
    get connections() {
      return http.connections;
    },
    url: () => place().url,
    send,
    async head(key, signal, input = {}) {
      const object = { Bucket: settings.bucket, Key: key };
      try {
        const command = new HeadObjectCommand({ ...object, ...input });
        const found = await send(command, { abortSignal: signal });
        if (!found.ETag && !found.LastModified) throw pageInPlace(key, 'open');
        return found;
      } catch (error) {
        // The answer to a HEAD has no body, so its error can't tell a missing bucket or a wrong key
        // from other causes. A GET of the first byte can.
        if (serverAnswer(error) === null) throw error;
        const { Body } = await s3.send(new GetObjectCommand({ ...object, Range: 'bytes=0-0' }), {
          abortSignal: signal,
        });
        (Body as Readable).destroy();
        throw error;
      }
    },
    close() {
      http.close();
    },
  };
}

/**
 * Settings that the SDK would otherwise read from AWS_* variables and files in the home directory.
 */
const NOT_FROM_THE_ENVIRONMENT = {
  defaultsMode: 'standard',
  ignoreConfiguredEndpointUrls: true,
  useDualstackEndpoint: false,
  useFipsEndpoint: false,
  useArnRegion: false,
  disableMultiregionAccessPoints: true,
  disableS3ExpressSessionAuth: true,
  userAgentAppId: 'waybill',
  authSchemePreference: ['sigv4'],
  sigv4aSigningRegionSet: [],
  expectContinueHeader: false,
} satisfies S3ClientConfig & { ignoreConfiguredEndpointUrls: boolean };

function regionalEndpoint(region: string): string {
  return `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Reads an answer to its end, so that the connection can be used again. */
function discard(body: Readable): Promise<void> {
  return new Promise((resolve) => {
    body.once('end', resolve).once('close', resolve).resume();
  });
}

/**
 * Prevents the SDK from hashing each part with SHA-256 only for the signature, which halves the
 * speed. TLS protects the content, and a checksum is compared. A plain connection to another host
 * keeps the signed hash.
 */
function leavePayloadsUnsigned(s3: S3Client): void {
  s3.middlewareStack.add(
    (next) => (args) => {
      const { headers, body } = args.request as { headers: Record<string, string>; body?: unknown };
      if (body instanceof Uint8Array) headers['x-amz-content-sha256'] ??= 'UNSIGNED-PAYLOAD';
      return next(args);
    },
    { step: 'build', name: 'unsignedPayload' },
  );
}
