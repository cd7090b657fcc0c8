import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type ProxiedEndpoint, startBehindProxy } from '../support/behind-proxy.ts';
import { ENDPOINT_KINDS, ENDPOINT_NAMES, type EndpointName, sha256At, uriOf, whyNotAll } from '../support/endpoints.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  transferInLog,
  untilStatus,
} from '../support/installation.ts';
import { describeWithPostgres } from '../support/postgres.ts';
import { type RunningRoles, type SpawnedService, spawnService, startDispatch } from '../support/roles.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { expireLeases, storyOf, until, untilCleanedUp } from '../support/transfers.ts';

const MiB = 1 << 20;
const SIZE = 64 * MiB;
/** Of several chunks of every protocol. */
const LONG = 24 * MiB;
/** What the protocols say beside the bytes of the file. */
const OVERHEAD = MiB;
/** Every kind as the destination, and as the source. */
const PAIRS: { from: EndpointName; to: EndpointName }[] = [
  ...ENDPOINT_NAMES.map((to) => ({ from: to === 'sftp' ? ('ftps' as const) : ('sftp' as const), to })),
  ...ENDPOINT_NAMES.filter((from) => /s3|azure/.test(from)).map((from) => ({ from, to: 'sftp' as const })),
];

const TAKEN_OVER = ['created', 'queued: admitted', 'in_progress', 'queued: mover_lost', 'in_progress', 'completed'];

/** Resolves when the mover is to be frozen, with what lets go of the bytes that are held back until it wakes up. */
type Strike = (proxy: TcpProxy, installation: TestInstallation) => Promise<() => void>;

const inTheMiddle: Strike = async (proxy) => {
  const before = proxy.forwarded.up;
  await until('some of it is on its way', () => proxy.forwarded.up - before > LONG / 3, 60);
  return () => {};
};
/** What is on its way then arrives when it wakes up. */
const atTheCommit: Strike = (proxy, { sql }) =>
  proxy.holdWhen(async () => (await sql`select from work.transfer_jobs where resume_record->>'committing' is not null`).length > 0, 'up');

const FREEZES: [string, number, Strike, boolean][] = [
  ['in the middle, it wakes up while another one writes', LONG, inTheMiddle, true],
  ['in the middle, it wakes up when another one has finished', LONG, inTheMiddle, false],
  ['at the commit of a long file, it wakes up when another one has finished', LONG, atTheCommit, false],
  ['at the commit of a small file, it wakes up when another one has finished', 5_000, atTheCommit, false],
];

describeWithPostgres('a mover that vanishes in the middle of a file', () => {
  let installation: TestInstallation;
  let dispatch: RunningRoles;

  beforeAll(async () => {
    installation = await openTestInstallation();
    dispatch = startDispatch(installation);
  });
  afterAll(async () => {
    await dispatch?.stop();
    await installation?.close();
  });

  async function start(name: EndpointName): Promise<ProxiedEndpoint> {
    const endpoint = await startBehindProxy(name);
    onTestFinished(endpoint.stop);
    await configureEndpoint(installation, { ...endpoint.request, name });
    return endpoint;
  }

  async function startMover(): Promise<SpawnedService> {
    const mover = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });
    onTestFinished(mover.kill);
    return mover;
  }

  async function savedBytes(transferId: string): Promise<number> {
    const [row] = await installation.sql<{ bytes: number | null }[]>`
      select (resume_record->'destination'->>'bytes')::int as bytes from work.transfer_jobs where transfer_id = ${transferId}`;
    return row?.bytes ?? 0;
  }

  /** What must hold at the end, and for as long as anybody may still write. */
  async function expectArrived(id: string, destination: ProxiedEndpoint, sha256: string | null): Promise<void> {
    expect(await transferInLog(installation, id)).toMatchObject({ status: 'completed', checksum_sha256: sha256 });
    expect(await storyOf(installation, id)).toEqual(TAKEN_OVER);
    await untilCleanedUp(installation);
    expect(await sha256At(destination, 'folder/file')).toBe(sha256);
    expect(await destination.names('folder')).toEqual(['folder/file']);
  }

  for (const { from, to } of PAIRS) {
    const reason = whyNotAll([from, to]);
    const title = `another one goes on with what is at the destination: ${from} to ${to}`;
    test.skipIf(reason)(reason ? `${title} (skipped: ${reason})` : title, { timeout: 90_000 }, async () => {
      const [source, destination] = await Promise.all([start(from), start(to)]);
      await source.put('file', randomBytes(SIZE));
      const sha256 = await sha256At(source, 'file');
      // Some read a file over several connections at once.
      source.proxy.throttle(['sftp', 'ftps'].includes(from) ? 12 * MiB : 4 * MiB);
      const first = await startMover();
      const id = await submit(installation, uriOf(from, 'file'), uriOf(to, 'folder/'));
      await until('some of it is safe at the destination', async () => (await savedBytes(id)) >= 8 * MiB, 60);
      await first.kill();
      await until('its connections are gone', () => {
        for (const { proxy } of [source, destination]) proxy.cut();
        return source.proxy.connections + destination.proxy.connections === 0;
      });
      const kept = await savedBytes(id);
      const before = { read: source.proxy.forwarded.down, sent: destination.proxy.forwarded.up };

      source.proxy.throttle(Number.POSITIVE_INFINITY);
      await Promise.all([startMover(), expireLeases(installation)]);
      const done = await untilStatus(installation, id, ['completed', 'failed'], 60);
      expect(destination.proxy.forwarded.up - before.sent).toBeLessThan(SIZE - kept + OVERHEAD);
      // SHA-256 can't be taken over: what is at the destination is read, and hashed, once more.
      expect(source.proxy.forwarded.down - before.read).toBeLessThan(SIZE + OVERHEAD);
      expect(done).toMatchObject({
        status: 'completed',
        checksum_sha256: sha256,
        verification: { destination_checksum: ENDPOINT_KINDS[to].compares.parts },
      });
      await expectArrived(id, destination, sha256);
    });
  }

  for (const to of ENDPOINT_NAMES) {
    const from = to === 'sftp' ? 'ftps' : 'sftp';
    const reason = whyNotAll([from, to]);
    test.skipIf(reason).each(FREEZES)(
      reason ? `frozen %s: ${to} (skipped: ${reason})` : `frozen %s: ${to}`,
      { timeout: 90_000 },
      async (_, size, strike, wakesUpEarly) => {
        const [source, destination] = await Promise.all([start(from), start(to)]);
        await source.put('file', randomBytes(size));
        const sha256 = await sha256At(source, 'file');
        const { proxy } = destination;
        const frozen = await startMover();
        proxy.throttle(16 * MiB);
        const struck = strike(proxy, installation);
        const id = await submit(installation, uriOf(from, 'file'), uriOf(to, 'folder/'));
        const letGo = await struck;
        frozen.signal('SIGSTOP');
        expect((await storyOf(installation, id)).at(-1)).toBe('in_progress');
        proxy.throttle(wakesUpEarly ? 24 * MiB : Number.POSITIVE_INFINITY);
        await expireLeases(installation);
        const successor = await startMover();
        if (wakesUpEarly) await until('the other one has begun', async () => (await storyOf(installation, id)).length === 5);
        else await untilStatus(installation, id, ['completed', 'failed'], 60);
        frozen.signal('SIGCONT');
        letGo();
        await untilStatus(installation, id, ['completed', 'failed'], 60);
        await expectArrived(id, destination, sha256);

        // It is fit for work again, and when it has gone nothing else has become of the first file.
        await successor.stop();
        await source.put('next', randomBytes(5_000));
        const next = await submit(installation, uriOf(from, 'next'), uriOf(to, 'next/'));
        expect(await untilStatus(installation, next, ['completed', 'failed'], 60)).toMatchObject({ status: 'completed' });
        await untilCleanedUp(installation);
        expect(await frozen.stop()).toBe(0);
        await expectArrived(id, destination, sha256);
      },
    );
  }
});
