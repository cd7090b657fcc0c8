import { Writable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import pino from 'pino';
import { Registry } from 'prom-client';
import { createKey } from '../../../src/commands/keys.ts';
import { saveEndpoint } from '../../../src/commands/save-endpoint.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import type { Scope } from '../../../src/domain/scope.ts';
import { createHttpServer, type HttpServerDeps } from '../../../src/http/app.ts';
import { PROJECTIONS, projectionConsumer } from '../../../src/projections/read-models.ts';
import { runConsumer } from '../../../src/projections/run-consumer.ts';
import { CAUSE, openTestInstallation, type TestInstallation } from '../service/installation.ts';

export interface Answer {
  status: number;
  headers: Headers;
  /** Parsed if it is JSON of any kind. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of every shape
  body: any;
}

export interface Ask extends Omit<RequestInit, 'body'> {
  key?: string | null;
  /** Sent as JSON. */
  json?: unknown;
  body?: RequestInit['body'];
}

export interface Server {
  app: FastifyInstance;
  url: string;
  port: number;
  /**
   * Sends one request; `path` is relative to the base URL. Uses the default key, unless another key
   * or null is given.
   */
  ask(method: string, path: string, options?: Ask): Promise<Answer>;
}

export interface TestApi extends Server {
  installation: TestInstallation;
  /**
   * A key of the account `acc_default` with the scopes `transfers:write`, `audit:read` and
   * `metrics:read`.
   */
  key: string;
  /** Every logged line, as text. */
  logged: string[];
  createKey(
    scopes: Scope[],
    options?: { account?: string; expiresIn?: string },
  ): Promise<{ id: string; key: string }>;
  /** Starts another process's server on the same installation. */
  startServer(changes?: Partial<HttpServerDeps>): Promise<Server>;
  close(): Promise<void>;
}

/** The endpoint of `startApi`. */
export const ARCHIVE = {
  name: 'archive',
  protocol: 's3',
  bucket: 'archive',
  access_key_id: 'id',
  secret_access_key: 'secret',
};

/**
 * Starts the API on a real socket, with its own database, the projections, and one endpoint,
 * `archive`: the bucket of that name. There is no mover, so nothing moves.
 */
export async function startApi(
  changes: Partial<HttpServerDeps> = {},
  settings: Record<string, string> = {},
): Promise<TestApi> {
  const installation = await openTestInstallation(settings);
  const stopping = new AbortController();
  const consumers = Object.values(PROJECTIONS).map((projection) =>
    runConsumer(installation, projectionConsumer(projection), stopping.signal, () => undefined),
  );
  const logged: string[] = [];
  const logger = pino(
    { level: 'info' },
    new Writable({
      write(line, _encoding, done) {
        logged.push(String(line));
        done();
      },
    }),
  );
  const servers: Server[] = [];

  async function createTestKey(
    scopes: Scope[],
    { account = 'acc_default', expiresIn = '1h' }: { account?: string; expiresIn?: string } = {},
  ) {
    const request = keyRequest.parse({ name: 'test', scopes, account, expires_in: expiresIn });
    return createKey(installation.commands, request, CAUSE, { allowNever: false });
  }

  const { key } = await createTestKey(['transfers:write', 'audit:read', 'metrics:read']);
  await saveEndpoint(installation.commands, endpointRequest.parse(ARCHIVE), CAUSE);

  async function startServer(more: Partial<HttpServerDeps> = {}): Promise<Server> {
    const health = {
      ready: async () => ({ ready: true, checks: { postgres: { ok: true, detail: 'answers' } } }),
    };
    const app = createHttpServer({
      ...installation,
      logger,
      rateLimit: 10_000,
      trustedProxies: [],
      health,
      metrics: new Registry(),
      ...changes,
      ...more,
    });
    const url = await app.listen({ host: '127.0.0.1', port: 0 });
    const server: Server = {
      app,
      url,
      port: Number(new URL(url).port),
      ask: (method, path, options) => ask(url, method, path, { key, ...options }),
    };
    servers.push(server);
    return server;
  }

  return {
    ...(await startServer()),
    installation,
    key,
    logged,
    createKey: createTestKey,
    startServer,
    async close() {
      await Promise.all(servers.map(({ app }) => app.close()));
      stopping.abort();
      await Promise.all(consumers);
      await installation.close();
    },
  };
}

async function ask(
  url: string,
  method: string,
  path: string,
  { key, json, headers, ...init }: Ask,
): Promise<Answer> {
  const all = new Headers(headers);
  if (key && !all.has('authorization')) all.set('authorization', `Bearer ${key}`);
  if (json !== undefined) all.set('content-type', 'application/json');
  const response = await fetch(url + path, {
    method,
    headers: all,
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    ...init,
  });
  const text = await response.text();
  const isJson =
    /json/.test(response.headers.get('content-type') ?? '') &&
    text !== '' &&
    !/ndjson/.test(response.headers.get('content-type') ?? '');
  return {
    status: response.status,
    headers: response.headers,
    body: isJson ? JSON.parse(text) : text,
  };
}
