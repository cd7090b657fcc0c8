import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { CommandDeps } from '../../../src/commands/deps.ts';
import { removeEndpoint } from '../../../src/commands/endpoints.ts';
import { parseConfig } from '../../../src/config.ts';
import { payloadSchema } from '../../../src/contract/webhooks/payloads.ts';
import type { EndpointEvent } from '../../../src/domain/endpoints/endpoint.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import { type Installation, openInstallation } from '../../../src/installation.ts';
import {
  createConnectivity,
  type EndpointConnectivity,
  endpointConnectivity,
  LOST_AFTER,
} from '../../../src/processes/endpoints/connectivity.ts';
import { type ProbeTimes, runProbes } from '../../../src/processes/endpoints/probes.ts';
import { startBehindProxy } from '../../support/file-servers/behind-proxy.ts';
import { ENDPOINT_KINDS, ENDPOINT_NAMES } from '../../support/file-servers/endpoints.ts';
import { ABSENT_SERVER } from '../../support/file-servers/sftp/absent-server.ts';
import { type SftpServer, startSftpServer } from '../../support/file-servers/sftp/server.ts';
import { startSshSignInServer } from '../../support/file-servers/sftp/sign-in-server.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import {
  CAUSE,
  configureEndpoint,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../../support/service/installation.ts';
import { MOVING, type RunningRoles, startRoles } from '../../support/service/roles.ts';
import { describeTransfers, until } from '../../support/service/transfers.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhooks/receiver.ts';
import { addWebhook } from '../../support/webhooks/webhooks.ts';

const HOST_KEY = `SHA256:${'A'.repeat(43)}`;
const OFTEN: ProbeTimes = { everyMs: 50, timeLimitMs: 15_000 };
/** Waits for the first probe. No other one starts during a test. */
const ONCE: ProbeTimes = { everyMs: 3_600_000, timeLimitMs: 15_000 };

function startMonitor(installation: Installation, times: ProbeTimes): RunningRoles {
  const stopping = new AbortController();
  const running = runProbes(installation, stopping.signal, times);
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

async function eventsOf({ store }: Installation, id: string): Promise<EndpointEvent[]> {
  return (await store.read(streamName('endpoint', id))) as unknown as EndpointEvent[];
}

async function connectivityOf(installation: Installation, id: string): Promise<string[]> {
  const types = (await eventsOf(installation, id)).map(({ type }) => type);
  return types
    .filter((type) => type.startsWith('endpoint.connectivity_'))
    .map((type) => type.slice('endpoint.connectivity_'.length));
}

function untilConnectivity(
  installation: Installation,
  id: string,
  expected: string[],
): Promise<unknown> {
  return until(
    `connectivity ${expected.join(', ')}`,
    async () => (await connectivityOf(installation, id)).length >= expected.length,
  );
}

function untilHealth(
  installation: Installation,
  id: string,
  condition: (health: EndpointConnectivity) => boolean,
): Promise<EndpointConnectivity> {
  return until('the health of an endpoint', async () => {
    const health = (await endpointConnectivity(installation.sql)).get(id);
    return health && condition(health) ? health : null;
  });
}

describeWithPostgres('the probes of the monitor', () => {
  let installation: TestInstallation;
  let other: Installation;
  let projector: RunningRoles;
  let monitors: RunningRoles[];

  beforeAll(async () => {
    installation = await openTestInstallation();
    other = await openInstallation(
      parseConfig(installation.environment),
      pino({ level: 'silent' }),
    );
    projector = await startRoles(installation, ['projector']);
  });
  beforeEach(() => {
    monitors = [];
  });
  afterEach(() => Promise.all(monitors.map((monitor) => monitor.stop())));
  afterAll(async () => {
    await projector?.stop();
    await other?.close();
    await installation?.close();
  });

  test('start at once for a new endpoint, and for one with changed settings', async () => {
    const unused = { protocol: 'sftp', host: '127.0.0.1', username: 'u', password: 'p' };
    const request = { ...unused, name: 'fresh', base_path: '/', host_key_sha256: HOST_KEY };
    const before = { ...request, name: 'there-before', port: 1 };
    const first = await configureEndpoint(installation, before);
    monitors.push(startMonitor(installation, ONCE));
    await untilHealth(installation, first, ({ last_probe_at }) => last_probe_at !== null);
    const id = await configureEndpoint(installation, { ...request, port: 1 });
    await untilHealth(installation, id, ({ failures_in_row }) => failures_in_row === 1);
    await configureEndpoint(installation, { ...request, port: 2 });
    await untilHealth(installation, id, ({ failures_in_row }) => failures_in_row === 2);
    for (const each of [first, id]) await removeEndpoint(installation.commands, each, CAUSE);
  });

  test('report an outage where another one can never be reported', async () => {
    const unused = { protocol: 'sftp', host: '127.0.0.1', username: 'u', password: 'p' };
    const request = { ...unused, base_path: '/', host_key_sha256: HOST_KEY, port: 1 };
    const ids = [
      await configureEndpoint(installation, { ...request, name: 'down-1' }),
      await configureEndpoint(installation, { ...request, name: 'down-2' }),
    ];
    const { store } = installation;
    let broken: string | null = null;
    const commands: CommandDeps = {
      ...installation.commands,
      store: {
        ...store,
        async read(stream, from) {
          broken ??= stream;
          if (stream === broken) throw new Error('This stream can not be read');
          return store.read(stream, from);
        },
      },
    };
    monitors.push(startMonitor({ ...installation, commands }, OFTEN));
    await until('the other one is lost', async () => {
      const told = await Promise.all(ids.map((id) => connectivityOf(installation, id)));
      return told.flat().length === 1;
    });
    await Promise.all(monitors.splice(0).map((monitor) => monitor.stop()));
    for (const each of ids) await removeEndpoint(installation.commands, each, CAUSE);
  });

  describe.each(ENDPOINT_NAMES)('of %s', (name) => {
    const { whyNot, protocol } = ENDPOINT_KINDS[name];

    test('report every outage once, and its end', async (ctx) => {
      if (whyNot !== null) return ctx.skip(whyNot);
      monitors.push(startMonitor(installation, OFTEN), startMonitor(other, OFTEN));
      const server = await startBehindProxy(name);
      const { proxy } = server;
      try {
        const id = await configureEndpoint(installation, { ...server.request, name });
        const healthy = await untilHealth(
          installation,
          id,
          ({ successes_in_row }) => successes_in_row > 0,
        );
        expect(healthy).toMatchObject({
          failures_in_row: 0,
          error: null,
          last_probe_at: healthy.last_success_at,
        });
        expect(healthy.latency_ms).toBeGreaterThanOrEqual(0);
        if (protocol === 'sftp') expect(healthy.fingerprint).toBe(server.request.host_key_sha256);

        await proxy.refuse(true);
        await untilConnectivity(installation, id, ['lost']);
        const away = await untilHealth(
          installation,
          id,
          ({ failures_in_row }) => failures_in_row >= 2 * LOST_AFTER,
        );
        expect(await connectivityOf(installation, id)).toEqual(['lost']);
        const lost = (await eventsOf(installation, id)).at(-1);
        expect(lost).toEqual(expect.objectContaining({ type: 'endpoint.connectivity_lost' }));
        expect(lost?.data).toEqual({
          endpoint_id: id,
          name,
          protocol,
          host: '127.0.0.1',
          last_success_at: away.last_success_at,
          detected_at: expect.stringMatching(/^\d{4}-/),
          error: {
            code: 'connection_failed',
            message: expect.stringContaining('connection refused'),
          },
        });

        await proxy.refuse(false);
        await untilConnectivity(installation, id, ['lost', 'restored']);
        await proxy.refuse(true);
        await untilConnectivity(installation, id, ['lost', 'restored', 'lost']);
        expect(await connectivityOf(installation, id)).toEqual(['lost', 'restored', 'lost']);

        await removeEndpoint(installation.commands, id, CAUSE);
        await until(
          'a removed endpoint is forgotten',
          async () => !(await endpointConnectivity(installation.sql)).has(id),
        );
      } finally {
        await server.stop();
      }
    });
  });

  test('run in processes with the role monitor', async () => {
    // Its name makes it the first in turn.
    const id = await configureEndpoint(installation, {
      name: 'a',
      protocol: 's3',
      bucket: 'b',
      ...s3At('http://127.0.0.1:1'),
    });
    monitors.push(await startRoles(installation, ['monitor']));
    await untilHealth(
      installation,
      id,
      ({ error, last_probe_at }) => error?.code === 'connection_failed' && last_probe_at !== null,
    );
  });

  test('continue in another process', async () => {
    const [first, second] = [startMonitor(installation, OFTEN), startMonitor(other, OFTEN)];
    monitors.push(first, second);
    const id = await configureEndpoint(installation, {
      name: 'nobody',
      protocol: 's3',
      bucket: 'b',
      ...s3At('http://127.0.0.1:1'),
    });
    await untilConnectivity(installation, id, ['lost']);
    await first.stop();
    const { failures_in_row } = await untilHealth(installation, id, () => true);
    await untilHealth(
      installation,
      id,
      (health) => health.failures_in_row > failures_in_row + LOST_AFTER,
    );
    expect(await connectivityOf(installation, id)).toEqual(['lost']);
  });

  test('give up on a server that accepts connections and says nothing', async (ctx) => {
    const { whyNot } = ENDPOINT_KINDS.sftp;
    if (whyNot !== null) return ctx.skip(whyNot);
    const server = await startBehindProxy('sftp');
    try {
      server.proxy.stall(true);
      monitors.push(startMonitor(installation, { everyMs: 50, timeLimitMs: 300 }));
      const id = await configureEndpoint(installation, { ...server.request, name: 'silent' });
      await untilConnectivity(installation, id, ['lost']);
      const { error, last_success_at } = await untilHealth(installation, id, () => true);
      expect(error).toEqual({ code: 'timeout', message: '127.0.0.1: no answer within 0.3 s' });
      expect(last_success_at).toBeNull();
    } finally {
      await server.stop();
    }
  });

  test('do not sign in, and do not report an outage for a wrong host key', async () => {
    const server = await startSshSignInServer('password', 'right');
    try {
      monitors.push(startMonitor(installation, OFTEN));
      const ssh = {
        protocol: 'sftp',
        host: '127.0.0.1',
        port: server.port,
        username: 'me',
        password: 'right',
      };
      const pinned = await configureEndpoint(installation, {
        ...ssh,
        name: 'pinned',
        host_key_sha256: server.hostKeySha256,
      });
      const stranger = await configureEndpoint(installation, {
        ...ssh,
        name: 'stranger',
        host_key_sha256: `SHA256:${'A'.repeat(43)}`,
      });
      const [known, unknown] = await Promise.all(
        [pinned, stranger].map((id) =>
          untilHealth(installation, id, ({ successes_in_row }) => successes_in_row > LOST_AFTER),
        ),
      );
      expect(known).toMatchObject({ fingerprint: server.hostKeySha256, error: null });
      expect(unknown).toMatchObject({
        fingerprint: server.hostKeySha256,
        error: { code: 'host_key_mismatch' },
      });
      expect(await connectivityOf(installation, stranger)).toEqual([]);
      expect(server.attempts).toEqual([]);
    } finally {
      await server.stop();
    }
  });

  test('continue beside many servers that accept connections and say nothing', LONG, async () => {
    const silent = new Set<Socket>();
    const server = createServer((socket) => silent.add(socket.on('error', () => {}))).listen(
      0,
      '127.0.0.1',
    );
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const account = { ...ABSENT_SERVER, host: '127.0.0.1', port };
    const ids: string[] = [];
    for (let nr = 0; nr < 40; nr++)
      ids.push(await configureSftp(installation, `silent-${nr}`, account as never));
    monitors.push(startMonitor(installation, { everyMs: 400, timeLimitMs: 3_600_000 }));
    await until('all of them are probed', () => silent.size >= ids.length);
    for (const socket of silent) socket.destroy();
    server.close();
    for (const id of ids) await removeEndpoint(installation.commands, id, CAUSE);
  });
});

await describeTransfers('transfers and the connectivity of endpoints', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let proxy: TcpProxy;
  let receiver: WebhookReceiver;
  let id: string;
  let moving: RunningRoles;
  let monitor: RunningRoles;

  beforeAll(async () => {
    const settings = {
      WAYBILL_TRANSFER_RETRY_DELAYS: '20ms',
      WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.1/32',
    };
    [installation, server, receiver] = await Promise.all([
      openTestInstallation(settings),
      startSftpServer(),
      startWebhookReceiver(),
    ]);
    proxy = await startTcpProxy(server);
    moving = await startRoles(installation, [...MOVING, 'webhooks']);
    await addWebhook(installation, receiver.url, ['endpoint.connectivity_lost']);
    await configureSftp(installation, 'near', server);
    id = await configureSftp(installation, 'far', server, { port: proxy.port });
    writeFileSync(join(server.root, 'file'), 'file');
    monitor = startMonitor(installation, ONCE);
    await untilHealth(installation, id, ({ successes_in_row }) => successes_in_row === 1);
  });
  afterAll(async () => {
    await monitor?.stop();
    await moving?.stop();
    await installation?.close();
    await Promise.all([proxy?.close(), server?.stop(), receiver?.close()]);
  });

  let files = 0;
  const move = (from: string, to: string) =>
    submit(installation, `sftp://${from}/file`, `sftp://${to}/file-${files++}`);
  const away = async (on: boolean) => {
    await proxy.refuse(on);
    if (on) proxy.cut();
  };
  const complete = async (from: string, to: string) =>
    untilStatus(installation, await move(from, to), 'completed');
  const fail = async (from: string, to: string) =>
    untilStatus(installation, await move(from, to), 'failed');
  const failures = (count: number) =>
    untilHealth(installation, id, ({ failures_in_row }) => failures_in_row === count);

  test('a success resets the count of failures', async () => {
    await away(true);
    expect((await fail('near', 'far')).facts.error).toMatchObject({
      code: 'connection_failed',
      phase: 'destination_connect',
    });
    await failures(2);
    await away(false);
    await complete('far', 'near');
    await failures(0);
    await away(true);
    await fail('far', 'near');
    await failures(2);
    expect(await connectivityOf(installation, id)).toEqual([]);
  });

  test('three consecutive failures and all that follow are one outage', async () => {
    await Promise.all([fail('near', 'far'), fail('far', 'near')]);
    await untilConnectivity(installation, id, ['lost']);
    await fail('far', 'near');
    await failures(8);
    expect(await connectivityOf(installation, id)).toEqual(['lost']);
    const { error } = await untilHealth(installation, id, () => true);
    expect(error?.code).toBe('connection_failed');
  });

  test('a webhook gets the event', async () => {
    const { body } = await until('the webhook gets the event', () => receiver.received[0]);
    const told = payloadSchema('endpoint.connectivity_lost').parse(JSON.parse(body));
    const lost = (await eventsOf(installation, id)).at(-1);
    expect(told).toMatchObject({ type: 'endpoint.connectivity_lost', data: lost?.data });
  });

  test('two successes end the outage', async () => {
    await away(false);
    await complete('near', 'far');
    await untilHealth(installation, id, ({ successes_in_row }) => successes_in_row === 1);
    expect(await connectivityOf(installation, id)).toEqual(['lost']);
    await complete('far', 'near');
    await untilConnectivity(installation, id, ['lost', 'restored']);
  });

  test('an error from the server is not a network failure', async () => {
    const missing = await submit(installation, 'sftp://far/none', 'sftp://near/none');
    expect((await untilStatus(installation, missing, 'failed')).facts.error).toMatchObject({
      code: 'source_not_found',
    });
    // It would have been counted before the following transfers.
    await away(true);
    await fail('far', 'near');
    await failures(2);
  });

  test('a success is recorded only for an endpoint that has failed', async () => {
    const stopping = new AbortController();
    const connectivity = createConnectivity(installation, stopping.signal);
    connectivity.connected('end_well', 0);
    connectivity.failed('end_bad', { code: 'timeout', message: 'no answer' });
    await untilHealth(
      installation,
      'end_bad',
      ({ failures_in_row, error }) => failures_in_row === 1 && error?.code === 'timeout',
    );
    await untilHealth(installation, 'end_bad', ({ successes_in_row }) => {
      connectivity.connected('end_bad', 0);
      return successes_in_row > 0;
    });
    expect((await endpointConnectivity(installation.sql)).has('end_well')).toBe(false);
    stopping.abort();
  });
});

function s3At(endpoint_url: string): Record<string, unknown> {
  return { endpoint_url, force_path_style: true, access_key_id: 'id', secret_access_key: 'secret' };
}
