import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startFakeEventStoreDb } from '../support/event-store/fake/server.ts';
import { createProxiedDatabase, type ProxiedDatabase } from '../support/postgres/proxied.ts';
import { LONG } from '../support/run/long.ts';
import { type SftpPair, useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers, historyOf, storyOf, until } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 180_000 });

const MiB = 1 << 20;
const SIZE = 24 * MiB;
const RETRIED_AT_ONCE = { WAYBILL_TRANSFER_RETRY_DELAYS: '10ms' };
const SMOOTH = ['created', 'queued: admitted', 'in_progress', 'completed'];

await describeTransfers('a transfer during an outage of its stores', () => {
  /** Starts a move, and returns when a part of the file is in flight. */
  async function begin(pair: SftpPair, name: string): Promise<string> {
    pair.create(name, SIZE);
    pair.destination.throttle(4 * MiB);
    const before = pair.destination.forwarded.up;
    const id = await pair.submitted(name);
    await until('it is on its way', () => pair.destination.forwarded.up - before > 6 * MiB);
    return id;
  }

  /** Lets the rest arrive. */
  async function letArrive(pair: SftpPair, before: number): Promise<void> {
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    const sent = () => pair.destination.forwarded.up - before;
    await until('all bytes have arrived', () => sent() > SIZE, 60, sent);
  }

  describe('Postgres', () => {
    const settings: Record<string, string> = { ...RETRIED_AT_ONCE };
    let database: ProxiedDatabase;
    beforeAll(async () => {
      database = await createProxiedDatabase();
      settings.DATABASE_URL = database.url;
    });
    const pair = useSftpPair(settings);
    afterAll(() => database?.drop());

    test('waits before its commit, then completes without a retry', async () => {
      const before = pair.destination.forwarded.up;
      const id = await begin(pair, 'commit');
      await database.takeAway();
      await letArrive(pair, before);
      await sleep(3_000);
      await database.giveBack();
      expect(await pair.expectArrived(id, 'commit')).toMatchObject({ facts: { retry_count: 0 } });
      expect(await storyOf(pair.installation, id)).toEqual(SMOOTH);
    });

    test(
      'resumes after an outage longer than its lease, and counts no lost mover',
      LONG,
      async () => {
        const id = await begin(pair, 'lease');
        await database.takeAway();
        await until(
          'the mover cuts its own connections',
          () => pair.destination.connections === 0,
          60,
        );
        await sleep(15_000);
        await database.giveBack();
        expect(await pair.expectArrived(id, 'lease')).toMatchObject({ facts: { retry_count: 0 } });
        const history = await historyOf(pair.installation, id);
        expect(await storyOf(pair.installation, id)).toEqual([
          'created',
          'queued: admitted',
          'in_progress',
          'queued: mover_lost',
          'in_progress',
          'completed',
        ]);
        expect(history[3]?.data).toMatchObject({ lost_in_a_row: 0, given_back: 'lease_lost' });
      },
    );
  });

  describe('EventStoreDB', () => {
    const settings: Record<string, string> = { ...RETRIED_AT_ONCE };
    let log: Awaited<ReturnType<typeof startFakeEventStoreDb>>;
    beforeAll(async () => {
      log = await startFakeEventStoreDb();
      settings.EVENTSTORE_URL = log.url;
    });
    const pair = useSftpPair(settings);
    afterAll(() => log?.stop());

    test('is in the log once, by the attempt that moved it', LONG, async () => {
      const before = pair.destination.forwarded.up;
      const id = await begin(pair, 'end');
      log.stop();
      await letArrive(pair, before);
      // Longer than an append is retried.
      await sleep(15_000);
      await log.start();
      expect(await pair.expectArrived(id, 'end')).toMatchObject({ facts: { retry_count: 0 } });
      expect(await storyOf(pair.installation, id)).toEqual(SMOOTH);
    });
  });
});
