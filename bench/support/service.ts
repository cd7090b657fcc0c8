import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { connect, type Sql } from '../../src/adapters/postgres/connect.ts';
import { createKey } from '../../src/commands/keys.ts';
import { saveEndpoint } from '../../src/commands/save-endpoint.ts';
import { parseConfig } from '../../src/config.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { type Installation, openInstallation } from '../../src/installation.ts';
import { startProcess } from '../../test/support/programs/server-process.ts';
import type { Bench } from './bench.ts';
import { logSettings, openLog } from './event-log.ts';
import { PROFILES } from './profile.ts';

const PROJECT = resolve(import.meta.dirname, '../..');
const CAUSE = { actor: 'cli:bench', correlationId: 'bench' };

export interface RunningService {
  url: string;
  pid: number;
  /** Headers of an authorised request. */
  headers: Record<string, string>;
  /** The service's own database. */
  sql: Sql;
  log: EventStore;
  /** Stops it. It then writes its profile. */
  stop(): Promise<void>;
}

export interface ServiceOptions {
  databaseUrl: string;
  /** Endpoints, in the JSON of `waybill endpoints add`. */
  endpoints: Record<string, unknown>[];
  roles?: string;
  settings?: Record<string, string>;
  /** Further configuration before the service starts. */
  prepare?: (installation: Installation) => Promise<void>;
}

/** Starts `waybill serve` as a process, with limits that no benchmark reaches. */
export async function startService(
  bench: Bench,
  { databaseUrl, endpoints, roles, settings, prepare }: ServiceOptions,
): Promise<RunningService> {
  const environment = {
    DATABASE_URL: databaseUrl,
    ...logSettings(databaseUrl),
    WAYBILL_MASTER_KEY: randomBytes(32).toString('base64'),
    WAYBILL_PORT: '0',
    WAYBILL_RATE_LIMIT: '1000000',
    WAYBILL_MAX_OPEN_TRANSFERS: '1000000000',
    ...settings,
  };
  const key = await configure(environment, endpoints, prepare);
  const profiling = bench.options.profile ? ['--cpu-prof', '--cpu-prof-dir', PROFILES] : [];
  const command = [
    process.execPath,
    // What `bin/waybill` gives to Node, from the script `bench`.
    ...process.execArgv,
    ...profiling,
    join(PROJECT, 'src/cli.ts'),
    'serve',
    ...(roles ? ['--roles', roles] : []),
  ];
  const server = startProcess(command, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  bench.defer(() => server.kill());
  const url = await untilReady(server.child.stdout as NodeJS.ReadableStream);

  // Statements of the benchmark must not count as those of the service.
  const sql = connect(databaseUrl, {
    max: 2,
    settings: bench.options.profile ? { log_min_duration_statement: -1 } : {},
  });
  bench.defer(() => sql.end({ timeout: 1 }));
  return {
    url,
    pid: server.child.pid as number,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    sql,
    log: openLog(bench, databaseUrl, sql),
    async stop() {
      server.child.kill('SIGTERM');
      while (!server.ended) await sleep(20);
    },
  };
}

async function configure(
  environment: Record<string, string>,
  endpoints: Record<string, unknown>[],
  prepare: ServiceOptions['prepare'],
): Promise<string> {
  const installation = await openInstallation(parseConfig(environment), pino({ level: 'silent' }));
  try {
    for (const endpoint of endpoints)
      await saveEndpoint(installation.commands, endpointRequest.parse(endpoint), CAUSE);
    await prepare?.(installation);
    const request = keyRequest.parse({
      name: 'bench',
      scopes: ['transfers:read', 'transfers:write'],
      account: 'acc_default',
      expires_in: '1d',
    });
    return (await createKey(installation.commands, request, CAUSE, { allowNever: false })).key;
  } finally {
    await installation.close();
  }
}

/**
 * Reads the log of the service until it is ready, shows warnings and errors, and returns its URL.
 */
async function untilReady(log: NodeJS.ReadableStream): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  createInterface(log)
    .on('line', (line) => {
      const { level, msg, url } = JSON.parse(line) as { level: number; msg: string; url?: string };
      if (msg === 'waybill runs' && url) resolve(url);
      if (level >= 40) console.error(line);
    })
    .once('close', () => reject(new Error('the service ended before it was ready')));
  const url = await promise;
  while (!(await fetch(`${url}/health/ready`)).ok) await sleep(50);
  return url;
}
