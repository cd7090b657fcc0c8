import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { MIGRATIONS } from '../../../src/adapters/postgres/migrate.ts';
import { removeWebhook, updateWebhook } from '../../../src/commands/webhooks.ts';
import { newId } from '../../../src/domain/ids.ts';
import { replay, runReplays } from '../../../src/processes/webhooks/replays.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';
import {
  addWebhook,
  appendEvents,
  appendTransfer,
  runOutbox,
} from '../../support/webhooks/webhooks.ts';

const URL = 'https://receiver.example/hook';

describeWithPostgres('deliveries of a replay', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  const undo: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
    await installation.sql`
      truncate work.deliveries, work.pending_deliveries, work.delivery_attempts`;
  });

  const HOUR = 3_600_000;
  /**
   * Adds events of a separate account, one an hour, the last of them now, then a webhook that
   * subscribes to them.
   */
  async function history(count: number) {
    const accountId = `acc_${newId('req')}`;
    const ids: string[] = [];
    for (let i = count - 1; i >= 0; i--) {
      const at = new Date(Date.now() - i * HOUR);
      const { transferId, eventIds } = await appendTransfer(installation.store, [], {
        account_id: accountId,
      });
      expect(eventIds).toHaveLength(1);
      ids.push(
        ...(await appendEvents(
          installation.store,
          `transfer-${transferId}`,
          [{ type: 'transfer.cancelled', data: { cancelled_at: at.toISOString() } }],
          accountId,
          at,
        )),
      );
    }
    const webhookId = await addWebhook(installation, URL, ['transfer.cancelled'], { accountId });
    await runOutbox(installation);
    return { webhookId, ids };
  }

  function startReplays(store = installation.store) {
    const stopping = new AbortController();
    const running = runReplays(
      { ...installation, store, sql: installation.derived },
      stopping.signal,
    );
    const stop = async () => {
      stopping.abort();
      await running;
    };
    undo.push(stop);
    return stop;
  }

  async function done(webhookId: string): Promise<string[]> {
    await until(
      'the replay is done',
      async () => (await installation.sql`select from work.webhook_replays`).length === 0,
    );
    const rows = await installation.sql<{ event_id: string }[]>`
      select event_id from work.deliveries where webhook_id = ${webhookId} and status = 'pending'
       order by event_id`;
    return rows.map(({ event_id }) => event_id);
  }

  it('from a time contain every event since, also before the registration', async () => {
    const { webhookId, ids } = await history(6);
    startReplays();
    await replay(installation, webhookId, {
      time: new Date(Date.now() - 2.5 * HOUR).toISOString(),
    });
    expect(await done(webhookId)).toEqual(ids.slice(3).toSorted());
    await replay(installation, webhookId, { time: new Date(0).toISOString() });
    expect(await done(webhookId)).toEqual(ids.toSorted());
  });

  it('follow the subscription of the time of the request, also if the outbox lags', async () => {
    const { webhookId } = await history(2);
    const events = ['transfer.created', 'transfer.cancelled'] as const;
    await updateWebhook(installation.commands, webhookId, { events: [...events] }, CAUSE);
    await replay(installation, webhookId, { time: new Date(0).toISOString() });
    startReplays();
    await sleep(300);
    await runOutbox(installation);
    expect(await done(webhookId)).toHaveLength(4);
  });

  it('from a future time are none', async () => {
    const { webhookId } = await history(2);
    startReplays();
    await replay(installation, webhookId, { time: new Date(Date.now() + HOUR).toISOString() });
    expect(await done(webhookId)).toEqual([]);
  });

  it('from an event contain that event and all later ones in the log', async () => {
    const { webhookId, ids } = await history(4);
    startReplays();
    await replay(installation, webhookId, { eventId: ids[1] as string });
    expect(await done(webhookId)).toEqual(ids.slice(1).toSorted());
    await expect(replay(installation, webhookId, { eventId: newId('evt') })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('from an event find it behind one of a machine whose clock is ahead', async () => {
    const ahead = new Date(Date.now() + 2 * HOUR);
    const { transferId } = await appendTransfer(installation.store, []);
    const data = { cancelled_at: ahead.toISOString() };
    await appendEvents(
      installation.store,
      `transfer-${transferId}`,
      [{ type: 'transfer.cancelled', data }],
      'acc_default',
      ahead,
    );
    const { webhookId, ids } = await history(1);
    const store: EventStore = {
      ...installation.store,
      subscribe: (options) => installation.store.subscribe({ ...options, batchSize: 1 }),
    };
    await replay({ ...installation, store }, webhookId, { eventId: ids[0] as string });
    startReplays();
    expect(await done(webhookId)).toEqual(ids);
  });

  it('that existed are sent again unchanged, and pending ones stay pending', async () => {
    const { webhookId, ids } = await history(2);
    startReplays();
    await replay(installation, webhookId, { time: new Date(0).toISOString() });
    await done(webhookId);
    await installation.sql`
      update work.deliveries
         set body = 'as it was sent', status = 'delivered', ended_at = now(), attempts = 1
       where event_id = ${ids[0] as string}`;
    await installation.sql`
      delete from work.pending_deliveries where event_id = ${ids[0] as string}`;
    await installation.sql`
      update work.pending_deliveries set due_at = now() + interval '1 hour', tries = 2
       where event_id = ${ids[1] as string}`;
    await replay(installation, webhookId, { time: new Date(0).toISOString() });
    expect(await done(webhookId)).toEqual(ids.toSorted());
    const rows = await installation.sql`
        select d.body = 'as it was sent' as kept, p.tries, p.due_at <= now() as due
          from work.deliveries d join work.pending_deliveries p on p.delivery_id = d.id
         order by d.event_id = ${ids[0] as string}`;
    expect([...rows]).toEqual([
      { kept: false, tries: 2, due: false },
      { kept: true, tries: 0, due: true },
    ]);
  });

  it('continue where they were after their process has ended', async () => {
    const { webhookId, ids } = await history(3);
    await replay(installation, webhookId, { time: new Date(0).toISOString() });
    // It has passed the first one.
    const [first] = await installation.store.read(
      `transfer-${await transferOf(ids[0] as string)}`,
      1,
    );
    await installation.sql`
      update work.webhook_replays set position = ${first?.position as bigint}`;
    startReplays();
    expect(await done(webhookId)).toEqual(ids.slice(1).toSorted());
  });

  it('end when their webhook is removed, even in the middle', async () => {
    const { webhookId } = await history(2);
    await replay(installation, webhookId, { time: new Date(0).toISOString() });
    let removed: Promise<void> | undefined;
    const { store } = installation;
    // The webhook is removed after the replay has read the events and before it writes the
    // deliveries.
    startReplays({
      ...store,
      async *subscribe(options) {
        for await (const batch of store.subscribe(options)) {
          removed ??= removeWebhook(installation.commands, webhookId, CAUSE).then(() =>
            runOutbox(installation),
          );
          await removed;
          yield batch;
        }
      },
    });
    expect(await done(webhookId)).toEqual([]);
    await removed;
  });

  it('of several replays of one webhook become one replay, which covers all', async () => {
    const { webhookId, ids } = await history(5);
    const ago = (hours: number) => ({ time: new Date(Date.now() - hours * HOUR).toISOString() });
    const rows = () =>
      installation.sql`select position, until_position, since from work.webhook_replays`;
    await replay(installation, webhookId, ago(1.5));
    const [first] = await rows();
    await replay(installation, webhookId, ago(3.5));
    const [second, ...more] = await rows();
    expect(more).toEqual([]);
    expect(second?.since < first?.since).toBe(true);
    await appendTransfer(installation.store, []);
    await runOutbox(installation);
    await replay(installation, webhookId, { eventId: ids[2] as string });
    expect([...(await rows())]).toEqual([
      {
        position: second?.position,
        until_position: await installation.store.head(),
        since: null,
      },
    ]);
    startReplays();
    expect(await done(webhookId)).toEqual(ids.toSorted());
  });

  it('include requests that arrive while they run', async () => {
    const { webhookId, ids } = await history(4);
    await replay(installation, webhookId, { eventId: ids[3] as string });
    const { store } = installation;
    let asked: Promise<void> | undefined;
    startReplays({
      ...store,
      async read(...stream) {
        asked ??= replay(installation, webhookId, { eventId: ids[0] as string });
        await asked;
        return store.read(...stream);
      },
    });
    expect(await done(webhookId)).toEqual(ids.toSorted());
  });

  it('take turns, so a long replay delays no other', async () => {
    const long = await history(12);
    const short = await history(1);
    for (const { webhookId, ids } of [long, short])
      await replay(installation, webhookId, { eventId: ids[0] as string });
    const { store } = installation;
    startReplays({
      ...store,
      subscribe: (options) => store.subscribe({ ...options, batchSize: 1 }),
    });
    expect(await done(long.webhookId)).toEqual(long.ids.toSorted());
    const order = await installation.sql<
      { webhook_id: string }[]
    >`select webhook_id from work.deliveries order by created_at`;
    expect(order).toHaveLength(13);
    expect(order.at(-1)?.webhook_id).toBe(long.webhookId);
  });

  it('take turns, so repeated requests for one replay delay no other', async () => {
    const { sql, store } = installation;
    // More than one turn.
    const other = await history(6);
    const asked = await history(3);
    const askAgain = () =>
      replay(installation, asked.webhookId, { eventId: asked.ids[0] as string });
    await replay(installation, other.webhookId, { eventId: other.ids[0] as string });
    await askAgain();
    startReplays({
      ...store,
      subscribe: (options) => store.subscribe({ ...options, batchSize: 1 }),
      async read(...stream) {
        const others =
          await sql`select from work.webhook_replays where webhook_id <> ${asked.webhookId}`;
        if (others.length > 0) await askAgain();
        return store.read(...stream);
      },
    });
    expect(await done(asked.webhookId)).toEqual(asked.ids.toSorted());
    expect(await done(other.webhookId)).toEqual(other.ids.toSorted());
  });

  it('of several replays that an older version recorded become one replay', async () => {
    const { sql } = installation;
    await sql`drop index work.webhook_replays_webhook`;
    await sql`
      insert into work.webhook_replays (webhook_id, position, until_position, since)
      values ('whk_a', 5, 9, '2026-01-02'), ('whk_a', 3, 7, '2026-01-01'),
              ('whk_b', 5, 9, '2026-01-02'), ('whk_b', 7, 10, null)`;
    await sql.file(join(MIGRATIONS, '042_replays.sql'));
    expect([
      ...(await sql`
        select webhook_id, position, until_position, since from work.webhook_replays order by 1`),
    ]).toEqual([
      {
        webhook_id: 'whk_a',
        position: 3n,
        until_position: 9n,
        since: '2026-01-01T00:00:00.000Z',
      },
      { webhook_id: 'whk_b', position: 5n, until_position: 10n, since: null },
    ]);
    await sql`delete from work.webhook_replays`;
  });

  it('from an event of another account are rejected', async () => {
    const [ours, theirs] = [await history(1), await history(1)];
    await expect(
      replay(installation, ours.webhookId, { eventId: theirs.ids[0] as string }),
    ).rejects.toMatchObject({ code: 'not_found' });
  });

  it('from an event are rejected if the search for it exceeds its time', {
    timeout: 10_000,
  }, async () => {
    const { webhookId, ids } = await history(1);
    const left = new AbortController();
    // A log without an end.
    const store: EventStore = {
      ...installation.store,
      async *subscribe({ signal }) {
        for (let position = 1n; !signal.aborted; position++) {
          if (position === 10n) left.abort();
          yield { events: [], position, caughtUp: false };
        }
      },
    };
    const asked = replay(
      { ...installation, store },
      webhookId,
      { eventId: ids[0] as string },
      left.signal,
    );
    await expect(asked).rejects.toMatchObject({
      code: 'validation_failed',
      details: { errors: [{ field: 'from' }] },
    });
    expect(await installation.sql`select from work.webhook_replays`).toHaveLength(0);
  });

  it('from an event that cannot exist are rejected', async () => {
    const { webhookId } = await history(1);
    for (const eventId of ['evt_7ZZZZZZZZZZZZZZZZZZZZZZZZZ', 'evt_00000000000000000000000000']) {
      await expect(replay(installation, webhookId, { eventId })).rejects.toMatchObject({
        code: 'not_found',
      });
    }
  });

  async function transferOf(eventId: string): Promise<string> {
    for await (const { events } of installation.store.subscribe({
      from: null,
      signal: new AbortController().signal,
    })) {
      const found = events.find(({ id }) => id === eventId);
      if (found) return found.stream.slice('transfer-'.length);
    }
    return '';
  }
});
