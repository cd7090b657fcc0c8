import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { AttemptFigures } from '../../src/domain/transfer.ts';
import { configureSftp, openTestInstallation, submit, type TestInstallation, untilStatus } from '../support/installation.ts';
import { type RunningRoles, type SpawnedService, spawnService, startDispatch } from '../support/roles.ts';
import { type SftpServer, startSftpServer } from '../support/sftp-server.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import {
  describeTransfers,
  expireLeases,
  filesBelow,
  historyOf,
  savedChunks,
  sha256Of,
  storyOf,
  until,
  untilCleanedUp,
} from '../support/transfers.ts';

// They move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
const CHUNK = 8 * MiB;
const BIG = 128 * MiB;
const MEDIUM = 64 * MiB;
const TAKEN_OVER = ['created', 'queued: admitted', 'in_progress', 'queued: mover_lost', 'in_progress', 'completed'];

await describeTransfers('movers that vanish', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let proxy: TcpProxy;
  let dispatch: RunningRoles;
  let movers: SpawnedService[] = [];

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([openTestInstallation(), startSftpServer(), startSftpServer()]);
    dispatch = startDispatch(installation);
    proxy = await startTcpProxy(beta);
    await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'beta', { ...beta, port: proxy.port });
    writeFileSync(join(alpha.root, 'big'), randomBytes(BIG));
    writeFileSync(join(alpha.root, 'medium'), randomBytes(MEDIUM));
  });

  beforeEach(() => proxy.throttle(16 * MiB));
  afterEach(async () => {
    await Promise.all(movers.map((mover) => mover.kill()));
    movers = [];
  });
  afterAll(async () => {
    await dispatch?.stop();
    await proxy?.close();
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  async function startMover(): Promise<SpawnedService> {
    const mover = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });
    movers.push(mover);
    return mover;
  }

  /** Submits a file and returns when so many bytes of it have gone to the destination; the rest waits for the caller. */
  async function submitAndReach(file: string, folder: string, bytes: number): Promise<string> {
    const before = proxy.forwarded.up;
    const id = await submit(installation, `sftp://alpha/${file}`, `sftp://beta/${folder}/`);
    await until(`${bytes} bytes are on their way`, () => proxy.forwarded.up - before > bytes);
    proxy.throttle(MiB / 4);
    expect((await storyOf(installation, id)).at(-1)).toBe('in_progress');
    return id;
  }

  async function expectArrived(id: string, file: string, folder: string): Promise<void> {
    const done = await untilStatus(installation, id, ['completed', 'failed'], 60);
    const arrived = await sha256Of(join(beta.root, folder, file));
    expect(done).toMatchObject({ status: 'completed', checksum_sha256: arrived, facts: { retry_count: 0 } });
    expect(arrived).toBe(await sha256Of(join(alpha.root, file)));
    await untilCleanedUp(installation);
    expect(await filesBelow(join(beta.root, folder))).toEqual([file]);
  }

  test('killed in the middle: another one goes on where it was', async () => {
    proxy.throttle(4 * MiB);
    const first = await startMover();
    const id = await submit(installation, 'sftp://alpha/big', 'sftp://beta/killed/');
    await until('a chunk is saved', async () => (await savedChunks(installation, id)) > 0, 60);
    proxy.throttle(MiB / 4);
    await first.kill();
    await until('its connections are gone', () => proxy.connections === 0);
    const saved = await savedChunks(installation, id);
    expect(await filesBelow(join(beta.root, 'killed'))).toEqual([expect.stringMatching(/^\.big\..*\.part$/)]);

    const sentBefore = proxy.forwarded.up;
    proxy.throttle(Number.POSITIVE_INFINITY);
    await Promise.all([startMover(), expireLeases(installation)]);
    await expectArrived(id, 'big', 'killed');
    expect(proxy.forwarded.up - sentBefore).toBeLessThan(BIG - saved * CHUNK + MiB);
    expect(await storyOf(installation, id)).toEqual(TAKEN_OVER);
    const lost = (await historyOf(installation, id))[3];
    expect(lost).toMatchObject({ data: { lost_in_a_row: 1, size_bytes: BIG }, metadata: { actor: 'system:admission' } });
  });

  test('told to stop in the middle: it hands the file back, and the next one goes on at once', async () => {
    const first = await startMover();
    const id = await submitAndReach('medium', 'stopped', 48 * MiB);
    expect(await first.stop()).toBe(0);
    expect(await storyOf(installation, id)).toEqual(TAKEN_OVER.slice(0, 4));
    const handedBack = (await historyOf(installation, id))[3];
    expect(handedBack).toMatchObject({ data: { lost_in_a_row: 0 }, metadata: { actor: expect.stringMatching(/^mover:/) } });
    const arrived = (handedBack as { data: AttemptFigures }).data.transferred_bytes;
    expect(arrived).toBeGreaterThan(0);

    proxy.throttle(Number.POSITIVE_INFINITY);
    const sentBefore = proxy.forwarded.up;
    await startMover();
    await expectArrived(id, 'medium', 'stopped');
    expect(proxy.forwarded.up - sentBefore).toBeLessThan(MEDIUM - arrived + MiB);
    expect(await storyOf(installation, id)).toEqual(TAKEN_OVER);
  });
});
