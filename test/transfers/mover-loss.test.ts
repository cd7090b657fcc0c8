import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { AttemptFigures } from '../../src/domain/transfers/transfer.ts';
import { findWait } from '../../src/processes/dispatch/waiting-for.ts';
import { startTcpProxy } from '../support/network/tcp-proxy.ts';
import { LONG } from '../support/run/long.ts';
import { submit, transferInLog } from '../support/service/installation.ts';
import { type SpawnedService, spawnMover, startDispatch } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import {
  describeTransfers,
  expireLeases,
  filesBelow,
  historyOf,
  savedChunks,
  storyOf,
  until,
} from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 180_000 });

const MiB = 1 << 20;
const CHUNK = 8 * MiB;
const SIZE = 32 * MiB;
const TAKEN_OVER = [
  'created',
  'queued: admitted',
  'in_progress',
  'queued: mover_lost',
  'in_progress',
  'completed',
];

await describeTransfers('lost movers', () => {
  const pair = useSftpPair({}, startDispatch);
  let movers: SpawnedService[] = [];

  beforeAll(() => {
    pair.create('file', SIZE);
  });
  beforeEach(() => pair.destination.throttle(16 * MiB));
  afterEach(async () => {
    await Promise.all(movers.map((mover) => mover.kill()));
    movers = [];
  });

  async function startMover(environment: Record<string, string> = {}): Promise<SpawnedService> {
    const mover = await spawnMover(pair.installation.environment, environment);
    movers.push(mover);
    return mover;
  }

  /**
   * Submits the file and returns when this many bytes of it have gone to the destination. The
   * caller decides when the rest moves.
   */
  async function submitAndReach(folder: string, bytes: number): Promise<string> {
    const before = pair.destination.forwarded.up;
    const id = await submit(pair.installation, 'sftp://alpha/file', `sftp://beta/${folder}/`);
    await until(
      `${bytes} bytes are on their way`,
      () => pair.destination.forwarded.up - before > bytes,
    );
    pair.destination.throttle(MiB / 4);
    expect((await storyOf(pair.installation, id)).at(-1)).toBe('in_progress');
    return id;
  }

  async function expectArrived(id: string, folder: string): Promise<void> {
    expect(await pair.expectArrived(id, 'file', folder)).toMatchObject({
      facts: { retry_count: 0 },
    });
  }

  test(
    'a transfer resumes on another mover after its mover was killed in the middle',
    LONG,
    async () => {
      pair.destination.throttle(4 * MiB);
      const first = await startMover();
      const id = await submit(pair.installation, 'sftp://alpha/file', 'sftp://beta/killed/');
      await until(
        'a chunk is saved',
        async () => (await savedChunks(pair.installation, id)) > 0,
        60,
      );
      pair.destination.throttle(MiB / 4);
      await first.kill();
      const { installation } = pair;
      const wait = await until('it says what it waits for', async () =>
        findWait(installation.sql, await transferInLog(installation, id)),
      );
      expect(wait.reason).toBe('previous_lease');
      await until('its connections are gone', () => pair.destination.connections === 0);
      const saved = await savedChunks(pair.installation, id);
      expect(await filesBelow(join(pair.beta.root, 'killed'))).toEqual([
        expect.stringMatching(/^\.file\..*\.part$/),
      ]);

      const sentBefore = pair.destination.forwarded.up;
      pair.destination.throttle(Number.POSITIVE_INFINITY);
      await Promise.all([startMover(), expireLeases(pair.installation)]);
      await expectArrived(id, 'killed');
      expect(pair.destination.forwarded.up - sentBefore).toBeLessThan(SIZE - saved * CHUNK + MiB);
      expect(await storyOf(pair.installation, id)).toEqual(TAKEN_OVER);
      const lost = (await historyOf(pair.installation, id))[3];
      expect(lost).toMatchObject({
        data: { lost_in_a_row: 1, size_bytes: SIZE },
        metadata: { actor: 'system:admission' },
      });
      expect(lost?.data).not.toHaveProperty('given_back');
    },
  );

  test('a mover that stops releases the transfer, and another resumes it', async () => {
    const first = await startMover();
    const id = await submitAndReach('stopped', 20 * MiB);
    expect(await first.stop()).toBe(0);
    expect(await storyOf(pair.installation, id)).toEqual(TAKEN_OVER.slice(0, 4));
    const handedBack = (await historyOf(pair.installation, id))[3];
    expect(handedBack).toMatchObject({
      data: { lost_in_a_row: 0, given_back: 'shutdown' },
      metadata: { actor: expect.stringMatching(/^mover:/) },
    });
    const arrived = (handedBack as { data: AttemptFigures }).data.transferred_bytes;
    expect(arrived).toBeGreaterThan(0);

    pair.destination.throttle(Number.POSITIVE_INFINITY);
    // Bytes that it had sent may still be on the slow line.
    await until('its connections are gone', () => pair.destination.connections === 0);
    const sentBefore = pair.destination.forwarded.up;
    await startMover();
    await expectArrived(id, 'stopped');
    expect(pair.destination.forwarded.up - sentBefore).toBeLessThan(SIZE - arrived + MiB);
    expect(await storyOf(pair.installation, id)).toEqual(TAKEN_OVER);
  });

  test('a mover without Postgres cuts its connections, and another resumes', LONG, async () => {
    const url = new URL(pair.installation.environment.DATABASE_URL as string);
    const postgres = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
    onTestFinished(postgres.close);
    url.host = `${postgres.host}:${postgres.port}`;
    const first = await startMover({ DATABASE_URL: url.href });
    const id = await submitAndReach('silent', 16 * MiB);
    postgres.stall(true);
    // However slow this machine is, no other mover takes over meanwhile.
    await pair.installation.sql`
        update work.transfer_jobs set lease_until = now() + interval '1 hour'
         where transfer_id = ${id}`;
    await until(
      'its connections are gone',
      () => pair.source.connections + pair.destination.connections === 0,
      60,
    );
    expect((await storyOf(pair.installation, id)).at(-1)).toBe('in_progress');

    pair.destination.throttle(Number.POSITIVE_INFINITY);
    await first.kill();
    await Promise.all([startMover(), expireLeases(pair.installation)]);
    await expectArrived(id, 'silent');
    expect(await storyOf(pair.installation, id)).toEqual(TAKEN_OVER);
  });
});
