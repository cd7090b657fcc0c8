import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ENDPOINT_KINDS, type EndpointName, ftpsEndpoint, sha256At, type TestEndpoint, uriOf, whyNotAll } from '../support/endpoints.ts';
import { startFtpsServer } from '../support/ftps-server.ts';
import { configureEndpoint, openTestInstallation, submit, type TestInstallation, untilStatus } from '../support/installation.ts';
import { describeWithPostgres } from '../support/postgres.ts';
import { type RunningRoles, type SpawnedService, spawnService, startDispatch } from '../support/roles.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { expireLeases, storyOf, until, untilCleanedUp } from '../support/transfers.ts';

const MiB = 1 << 20;
const SIZE = 64 * MiB;
/** What the protocols say beside the bytes of the file. */
const OVERHEAD = MiB;

/** A destination that tells how many bytes of files were sent to it since it was asked last. */
interface CountingDestination {
  endpoint: TestEndpoint;
  request: Record<string, unknown>;
  sent(): number;
  stop(): Promise<void>;
}

async function startBehindProxy(name: EndpointName): Promise<CountingDestination> {
  const endpoint = await ENDPOINT_KINDS[name].start();
  const { host, port, endpoint_url } = endpoint.request as { host: string; port: number; endpoint_url?: string };
  const url = endpoint_url === undefined ? null : new URL(endpoint_url);
  const proxy = await startTcpProxy(url ? { host: url.hostname, port: Number(url.port) } : { host, port });
  if (url) url.port = String(proxy.port);
  let before = 0;
  return {
    endpoint,
    request: { ...endpoint.request, ...(url ? { endpoint_url: url.href } : { port: proxy.port }) },
    sent() {
      const since = proxy.forwarded.up - before;
      before = proxy.forwarded.up;
      return since;
    },
    async stop() {
      await proxy.close();
      await endpoint.stop();
    },
  };
}

/** Data connections can't go through a proxy: what the server was told to keep says how much was sent. */
async function startCountingFtps(): Promise<CountingDestination> {
  const server = await startFtpsServer({ kind: 'proftpd', tls: 'explicit' });
  const endpoint = ftpsEndpoint(server);
  let before = 0;
  return {
    endpoint,
    request: endpoint.request,
    sent() {
      const log = server.log();
      const [, kept = 0] = /^REST (\d+) -> 350/m.exec(log.slice(before)) ?? [];
      before = log.length;
      return SIZE - Number(kept);
    },
    stop: endpoint.stop,
  };
}

const DESTINATIONS = Object.entries({
  sftp: () => startBehindProxy('sftp'),
  ftps: startCountingFtps,
  's3-ceph': () => startBehindProxy('s3-ceph'),
  's3-strict': () => startBehindProxy('s3-strict'),
  azure: () => startBehindProxy('azure'),
} satisfies Record<EndpointName, unknown>) as [EndpointName, () => Promise<CountingDestination>][];

describeWithPostgres('a mover killed in the middle of a file', () => {
  let installation: TestInstallation;
  let dispatch: RunningRoles;
  let source: TestEndpoint;
  let proxy: TcpProxy;
  let sha256: string | null;
  const closers: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    if (ENDPOINT_KINDS.sftp.whyNot !== null) return;
    [installation, source] = await Promise.all([openTestInstallation(), ENDPOINT_KINDS.sftp.start()]);
    const { host, port } = source.request as { host: string; port: number };
    proxy = await startTcpProxy({ host, port });
    dispatch = startDispatch(installation);
    await configureEndpoint(installation, { ...source.request, name: 'source', port: proxy.port });
    await source.put('file', randomBytes(SIZE));
    sha256 = await sha256At(source, 'file');
  });
  afterEach(async () => {
    await Promise.all(closers.splice(0).map((close) => close()));
  });
  afterAll(async () => {
    await dispatch?.stop();
    await proxy?.close();
    await Promise.all([installation?.close(), source?.stop()]);
  });

  async function startMover(): Promise<SpawnedService> {
    const mover = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });
    closers.unshift(mover.kill);
    return mover;
  }

  async function savedBytes(transferId: string): Promise<number> {
    const [row] = await installation.sql<{ bytes: number | null }[]>`
      select (resume_record->'destination'->>'bytes')::int as bytes from work.transfer_jobs where transfer_id = ${transferId}`;
    return row?.bytes ?? 0;
  }

  for (const [name, start] of DESTINATIONS) {
    const reason = whyNotAll(['sftp', name]);
    const title = `another one goes on with what is at the destination: ${name}`;
    test.skipIf(reason)(reason ? `${title} (skipped: ${reason})` : title, { timeout: 90_000 }, async () => {
      const destination = await start();
      closers.push(destination.stop);
      await configureEndpoint(installation, { ...destination.request, name });
      proxy.throttle(12 * MiB);
      const first = await startMover();
      const id = await submit(installation, 'sftp://source/file', uriOf(name, 'folder/'));
      await until('some of it is safe at the destination', async () => (await savedBytes(id)) >= 8 * MiB, 60);
      await first.kill();
      const kept = await savedBytes(id);
      destination.sent();

      proxy.throttle(Number.POSITIVE_INFINITY);
      await Promise.all([startMover(), expireLeases(installation)]);
      const done = await untilStatus(installation, id, ['completed', 'failed'], 60);
      expect(destination.sent()).toBeLessThan(SIZE - kept + OVERHEAD);
      expect(done).toMatchObject({
        status: 'completed',
        checksum_sha256: sha256,
        verification: { destination_checksum: ENDPOINT_KINDS[name].compares.parts },
      });
      expect(await sha256At(destination.endpoint, 'folder/file')).toBe(sha256);
      expect(await storyOf(installation, id)).toEqual([
        'created',
        'queued: admitted',
        'in_progress',
        'queued: mover_lost',
        'in_progress',
        'completed',
      ]);
      await untilCleanedUp(installation);
      expect(await destination.endpoint.names('folder')).toEqual(['folder/file']);
    });
  }
});
