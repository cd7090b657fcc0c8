import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Queryable, Transaction } from '../../../src/adapters/postgres/connect.ts';
import { updateWebhook } from '../../../src/commands/webhooks.ts';
import { newId } from '../../../src/domain/ids.ts';
import {
  ping,
  redeliver,
  retryAllFailedDeliveries,
  retryFailedDeliveries,
} from '../../../src/processes/webhooks/deliveries.ts';
import {
  claimDeliveries,
  findDueWebhooks,
  releaseClaims,
} from '../../../src/processes/webhooks/delivery-table/claim.ts';
import { enqueue, enqueueAgain } from '../../../src/processes/webhooks/delivery-table/insert.ts';
import { purgeDeliveries } from '../../../src/processes/webhooks/delivery-table/purge.ts';
import {
  countDueDeliveries,
  type DeliveryFilter,
  getDelivery,
  listDeliveries,
} from '../../../src/processes/webhooks/delivery-table/read.ts';
import { holdRows } from '../../support/postgres/row-locks.ts';
import { rowsRead } from '../../support/postgres/rows-read.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';
import { addDeliveries, addWebhook, runOutbox } from '../../support/webhooks/webhooks.ts';

const URL = 'https://receiver.example/hook';

describeWithPostgres('deliveries', () => {
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

  /** Sets the outcome of a webhook's deliveries. */
  async function end(webhookId: string, status: 'delivered' | 'failed', ago = '0'): Promise<void> {
    await installation.sql`
      update work.deliveries
         set status = ${status}, attempts = 4, ended_at = now() - ${ago}::interval,
             created_at = least(created_at, now() - ${ago}::interval)
       where webhook_id = ${webhookId}`;
    await installation.sql`delete from work.pending_deliveries where webhook_id = ${webhookId}`;
    await installation.sql`
      insert into work.delivery_attempts select id, 4, now(), 1, 500, 'answered 500', 'x'
        from work.deliveries where webhook_id = ${webhookId}`;
  }

  it('are listed newest first, filtered and paged', async () => {
    const { sql } = installation;
    const ids: string[] = [];
    for (const webhookId of ['whk_a', 'whk_a', 'whk_b']) {
      ids.push(await ping(sql, { webhookId, accountId: `acc_${webhookId}` }));
      // The ids of one millisecond have no order.
      await sleep(2);
    }
    await end('whk_b', 'failed');
    const listed = async (filter: Partial<Parameters<typeof listDeliveries>[1]>) => {
      const { deliveries, total } = await listDeliveries(sql, { limit: 10, offset: 0, ...filter });
      return [deliveries.map(({ id }) => ids.indexOf(id)), total];
    };
    expect(await listed({})).toEqual([[2, 1, 0], 3]);
    expect(await listed({ limit: 1, offset: 1 })).toEqual([[1], 3]);
    expect(await listed({ webhookId: 'whk_a' })).toEqual([[1, 0], 2]);
    expect(await listed({ status: 'failed' })).toEqual([[2], 1]);
    expect(await listed({ accountId: 'acc_whk_a', status: 'failed' })).toEqual([[], 0]);
    expect(await getDelivery(sql, ids[0] as string, { webhookId: 'whk_b' })).toBeNull();
    expect(await getDelivery(sql, ids[2] as string)).toMatchObject({
      event_type: 'ping',
      attempts: 4,
      attempt_list: [{ number: 4, status_code: 500 }],
    });
  });

  it('are enqueued by several processes at once, in any order', async () => {
    const { sql } = installation;
    const deliveries = Array.from({ length: 2_000 }, (_, n) => ({
      webhook_id: 'whk_a',
      account_id: 'acc_default',
      event_id: `evt_${n}`,
      event_type: 'transfer.created',
      transfer_id: null,
      body: '{}',
    }));
    for (let round = 0; round < 5; round++) {
      await sql`truncate work.deliveries`;
      await Promise.all([
        sql.begin((tx) => enqueue(tx, deliveries)),
        sql.begin((tx) => enqueueAgain(tx, deliveries.toReversed())),
      ]);
      const [row] = await sql`select count(*)::integer as rows from work.deliveries`;
      expect(row).toEqual({ rows: 2_000 });
    }
  });

  it('are counted to 10,000, and listed beyond that', async () => {
    const { sql } = installation;
    await addDeliveries(sql, 10_002, { webhookId: 'whk_many' });
    const page = async (offset: number) => {
      const { deliveries, total, hasMore } = await listDeliveries(sql, {
        webhookId: 'whk_many',
        limit: 2,
        offset,
      });
      return [deliveries.length, total, hasMore];
    };
    expect(await page(0)).toEqual([2, 10_000, true]);
    expect(await page(9_999)).toEqual([2, 10_000, true]);
    expect(await page(10_000)).toEqual([2, 10_000, false]);
    expect(await page(10_002)).toEqual([0, 10_000, false]);
  });

  it('that are due are counted to 100,000, without those of disabled webhooks', async () => {
    const { sql } = installation;
    const enabled = await addWebhook(installation, URL, ['transfer.failed']);
    const disabled = await addWebhook(installation, URL, ['transfer.failed']);
    await updateWebhook(installation.commands, disabled, { enabled: false }, CAUSE);
    await runOutbox(installation);
    const add = (first: number, last: number, webhookId: string, dueIn = '0') => sql`
      insert into work.pending_deliveries (delivery_id, webhook_id, event_id, due_at)
      select 'dlv_' || n, ${webhookId}, 'evt_' || n, now() + ${dueIn}::interval
        from generate_series(${first}::integer, ${last}::integer) n`;
    await add(1, 10, disabled);
    await add(11, 12, enabled, '1 hour');
    await add(13, 15, enabled);
    expect(await countDueDeliveries(sql)).toBe(3);
    await add(16, 100_020, enabled);
    expect(await countDueDeliveries(sql)).toBe(100_000);
  });

  it('of an account with few are found without a scan of those of other accounts', async () => {
    const { sql } = installation;
    await addDeliveries(sql, 5_000, { webhookId: 'whk_many' });
    const id = await ping(sql, { webhookId: 'whk_few', accountId: 'acc_few' });
    await sql`analyze work.deliveries`;
    await sql.begin(async (tx) => {
      const { found, read } = await firstPage(tx, { accountId: 'acc_few' });
      expect(found).toEqual([[id], 1]);
      // The planner reads a few too.
      expect(read).toBeLessThan(100);
    });
  });

  /** Lists ten deliveries. Returns their ids, the total, and how many index entries were read. */
  async function firstPage(tx: Transaction, filter: DeliveryFilter) {
    const entriesRead = async () => {
      const [read] = await tx<[{ entries: number }]>`
        select sum(pg_stat_get_xact_tuples_returned(indexrelid))::integer as entries
          from pg_index
         where indrelid in ('work.deliveries'::regclass, 'work.pending_deliveries'::regclass)`;
      return read.entries;
    };
    const before = await entriesRead();
    const { deliveries, total } = await listDeliveries(tx, { ...filter, limit: 10, offset: 0 });
    return {
      found: [deliveries.map(({ id }) => id), total],
      read: (await entriesRead()) - before,
    };
  }

  describe('that are pending', () => {
    const few = { accountId: 'acc_few', webhookId: 'whk_few' };
    const filters = [{}, few, { accountId: 'acc_few' }, { webhookId: 'whk_few' }];

    /** Runs work in a session that has planned its statements while there was no delivery. */
    async function withEarlyPlans(work: (tx: Transaction) => Promise<void>): Promise<void> {
      await installation.sql.begin(async (tx) => {
        for (const filter of filters)
          for (let time = 0; time < 7; time++)
            await firstPage(tx, { ...filter, status: 'pending' });
        await work(tx);
      });
    }

    it.each(filters)('are found without a scan of those that have ended: %j', async (filter) => {
      await withEarlyPlans(async (tx) => {
        const [id] = await addPendingOf(tx, few, 1);
        await addDeliveries(tx, 5_000, { webhookId: 'whk_few' });
        await tx`update work.deliveries set account_id = 'acc_few'`;
        await tx`update work.deliveries set status = 'delivered' where event_id > 'evt_3'`;
        const { found, read } = await firstPage(tx, { ...filter, status: 'pending' });
        expect(found).toEqual([[id], 1]);
        expect(read).toBeLessThan(100);
      });
    });

    it.each(filters.slice(1))('are found without a scan of those of others: %j', async (filter) => {
      await withEarlyPlans(async (tx) => {
        const [id] = await addPendingOf(tx, few, 1);
        await addPendingOf(tx, { accountId: 'acc_many', webhookId: 'whk_many' }, 5_000);
        const { found, read } = await firstPage(tx, { ...filter, status: 'pending' });
        expect(found).toEqual([[id], 1]);
        expect(read).toBeLessThan(100);
      });
    });

    it.each(filters)('are read no further than they are counted: %j', async (filter) => {
      const { sql } = installation;
      const ids = await addPendingOf(sql, few, 15_000);
      await sql`analyze work.deliveries, work.pending_deliveries`;
      await sql.begin(async (tx) => {
        const { found, read } = await firstPage(tx, { ...filter, status: 'pending' });
        expect(found).toEqual([ids.slice(0, 10), 10_000]);
        expect(read).toBeLessThan(11_000);
      });
    });

    it('are listed of all webhooks of an account, newest first, and paged', async () => {
      const { sql } = installation;
      const ids: string[] = [];
      for (const webhookId of ['whk_a', 'whk_b', 'whk_other', 'whk_a']) {
        const accountId = webhookId === 'whk_other' ? 'acc_other' : 'acc';
        ids.push(await ping(sql, { webhookId, accountId }));
        // The ids of one millisecond have no order.
        await sleep(2);
      }
      const listed = async (filter: Partial<Parameters<typeof listDeliveries>[1]>) => {
        const page = await listDeliveries(sql, {
          ...{ status: 'pending', limit: 2, offset: 0 },
          ...filter,
        });
        return [page.deliveries.map(({ id }) => ids.indexOf(id)), page.total, page.hasMore];
      };
      expect(await listed({})).toEqual([[3, 2], 4, true]);
      expect(await listed({ offset: 2 })).toEqual([[1, 0], 4, false]);
      expect(await listed({ accountId: 'acc' })).toEqual([[3, 1], 3, true]);
      expect(await listed({ accountId: 'acc', offset: 2 })).toEqual([[0], 3, false]);
      expect(await listed({ webhookId: 'whk_a' })).toEqual([[3, 0], 2, false]);
      expect(await listed({ accountId: 'acc', webhookId: 'whk_other' })).toEqual([[], 0, false]);
    });

    /** Adds pending deliveries of a webhook. Returns their ids, newest first. */
    async function addPendingOf(
      sql: Queryable,
      { accountId, webhookId }: { accountId: string; webhookId: string },
      count: number,
    ): Promise<string[]> {
      const deliveries = Array.from({ length: count }, (_, n) => ({
        webhook_id: webhookId,
        account_id: accountId,
        event_id: `evt_${n}`,
        event_type: 'transfer.created',
        transfer_id: null,
        body: '{}',
      }));
      await enqueue(sql, deliveries);
      const rows = await sql<{ id: string }[]>`
        select id from work.deliveries where webhook_id = ${webhookId} order by id desc`;
      return rows.map(({ id }) => id);
    }
  });

  it('become pending again one by one, or all failed ones of a webhook', async () => {
    const { sql } = installation;
    const first = await ping(sql, { webhookId: 'whk_a', accountId: 'acc' });
    await ping(sql, { webhookId: 'whk_a', accountId: 'acc' });
    const other = await ping(sql, { webhookId: 'whk_b', accountId: 'acc' });
    for (const id of ['whk_a', 'whk_b']) await end(id, 'failed');
    await redeliver(sql, { deliveryId: first, enabled: true });
    expect(await getDelivery(sql, first)).toMatchObject({ status: 'pending', attempts: 4 });
    expect(await retryFailedDeliveries(sql, { webhook_id: 'whk_a', enabled: true })).toBe(1);
    expect(await getDelivery(sql, other)).toMatchObject({ status: 'failed' });
    await expect(redeliver(sql, { deliveryId: newId('dlv'), enabled: true })).rejects.toMatchObject(
      { code: 'not_found' },
    );
  });

  it('become pending again 5,000 at a time, so that millions do not take one transaction', async () => {
    const { sql } = installation;
    await addDeliveries(sql, 10_002, { webhookId: 'whk_many' });
    const lock = await holdRows(
      sql,
      (tx) => tx`select from work.deliveries order by id desc limit 1 for update`,
    );
    const retried = retryFailedDeliveries(sql, { webhook_id: 'whk_many', enabled: true });
    const pending = async () => {
      const [row] = await sql<[{ rows: number }]>`
        select count(*)::integer as rows from work.pending_deliveries`;
      return row.rows;
    };
    try {
      await until('it waits', async () => (await lock.waiting('work.deliveries')) > 0);
      expect(await pending()).toBe(10_000);
    } finally {
      await lock.release();
    }
    expect(await retried).toBe(10_002);
    expect(await pending()).toBe(10_002);
    expect(await retryFailedDeliveries(sql, { webhook_id: 'whk_many', enabled: true })).toBe(0);
  });

  it('stay failed if their webhook is disabled: no process would send them', async () => {
    const { sql, commands } = installation;
    const add = async () => {
      const webhookId = await addWebhook(installation, URL, ['transfer.failed']);
      const deliveryId = await ping(sql, { webhookId, accountId: 'acc_default' });
      await end(webhookId, 'failed');
      return { webhookId, deliveryId };
    };
    const [live, idle] = [await add(), await add()];
    const disabled = await updateWebhook(commands, idle.webhookId, { enabled: false }, CAUSE);
    await expect(
      redeliver(sql, { deliveryId: idle.deliveryId, enabled: false }),
    ).rejects.toMatchObject({ code: 'webhook_disabled' });
    await expect(retryFailedDeliveries(sql, disabled)).rejects.toMatchObject({
      code: 'webhook_disabled',
    });
    expect(await retryAllFailedDeliveries(sql, null)).toBe(1);
    expect(await getDelivery(sql, idle.deliveryId)).toMatchObject({ status: 'failed' });
    expect(await getDelivery(sql, live.deliveryId)).toMatchObject({ status: 'pending' });
  });

  it('with an attempt in progress are left to it', async () => {
    const { sql } = installation;
    const id = await ping(sql, { webhookId: 'whk_a', accountId: 'acc' });
    await sql`
      update work.pending_deliveries
         set claim_id = 'clm_1', lease_until = now() + interval '1 minute'`;
    await redeliver(sql, { deliveryId: id, enabled: true });
    const [row] = await sql`select claim_id from work.pending_deliveries where delivery_id = ${id}`;
    expect(row).toEqual({ claim_id: 'clm_1' });
  });

  it('are deleted with their attempts, after 7 or 30 days', async () => {
    const { sql } = installation;
    const add = async (webhookId: string) => ping(sql, { webhookId, accountId: 'acc' });
    const kept = [await add('whk_delivered'), await add('whk_failed'), await add('whk_pending')];
    await end('whk_delivered', 'delivered', '6 days 23 hours');
    await end('whk_failed', 'failed', '29 days');
    for (const [webhookId, status, ago] of [
      ['whk_old', 'delivered', '7 days 1 minute'],
      ['whk_older', 'failed', '30 days 1 minute'],
    ] as const) {
      await add(webhookId);
      await end(webhookId, status, ago);
    }
    const waiting = await add('whk_disabled');
    await sql`
      update work.pending_deliveries set due_at = now() - interval '31 days'
       where delivery_id = ${waiting}`;
    await purgeDeliveries(sql);
    const left = await sql<{ id: string }[]>`select id from work.deliveries order by id`;
    expect(left.map(({ id }) => id)).toEqual(kept.toSorted());
    const pending = await sql<{ delivery_id: string }[]>`
      select delivery_id from work.pending_deliveries`;
    expect([...pending]).toEqual([{ delivery_id: kept[2] }]);
    const attempts = await sql<
      { delivery_id: string }[]
    >`select delivery_id from work.delivery_attempts order by 1`;
    expect(attempts.map(({ delivery_id }) => delivery_id)).toEqual(kept.slice(0, 2).toSorted());
  });

  it('of several webhooks are claimed in no fixed order if the places are too few', async () => {
    const { sql } = installation;
    for (let i = 0; i < 3; i++) {
      const webhookId = await addWebhook(installation, URL, ['transfer.completed']);
      await runOutbox(installation);
      await ping(sql, { webhookId, accountId: 'acc_default' });
    }
    const capacity = { healthy: 0, unproven: 1, each: 8, webhooks: new Map() };
    const first = new Set<string | undefined>();
    for (let i = 0; i < 50; i++) {
      const { claims } = await claimDeliveries(sql, capacity);
      first.add(claims[0]?.webhook_id);
      await releaseClaims(sql, claims);
    }
    expect(first.size).toBeGreaterThan(1);
  });

  describe('of two webhooks', () => {
    let few: string;
    let many: string;
    beforeEach(async () => {
      [few, many] = [await add(), await add()];
      for (let i = 0; i < 4; i++)
        for (const webhookId of [few, many])
          await ping(installation.sql, { webhookId, accountId: 'acc_default' });
    });

    async function add(): Promise<string> {
      const webhookId = await addWebhook(installation, URL, ['transfer.completed']);
      await runOutbox(installation);
      return webhookId;
    }

    /** Claims with these free places, while the process holds claims. Returns their webhooks. */
    async function claimed(healthy: number, held: { few: number; many: number }) {
      const webhooks = new Map([
        [few, { free: 8, held: held.few, healthy: true }],
        [many, { free: 8, held: held.many, healthy: true }],
      ]);
      const capacity = { healthy, unproven: 0, each: 8, webhooks };
      const { claims } = await claimDeliveries(installation.sql, capacity);
      return claims.map(({ webhook_id }) => (webhook_id === few ? 'few' : 'many')).toSorted();
    }

    it('are claimed of the one with fewer claims first if the places are too few', async () => {
      expect(await claimed(4, { few: 1, many: 3 })).toEqual(['few', 'few', 'few', 'many']);
    });

    it('leave no place unused beside one that holds more claims than its share', async () => {
      expect(await claimed(8, { few: 0, many: 100 })).toHaveLength(8);
    });

    it('leave the whole share to the other if all of one are claimed', async () => {
      await installation.sql`
        update work.pending_deliveries set lease_until = now() + interval '1 minute'
         where webhook_id = ${many}`;
      expect(await claimed(4, { few: 0, many: 4 })).toEqual(['few', 'few', 'few', 'few']);
    });
  });

  /** Adds pending deliveries of a webhook, one of each transfer. */
  async function addPending(webhookId: string, transferIds: string[]): Promise<void> {
    const deliveries = transferIds.map((transferId) => ({
      webhook_id: webhookId,
      account_id: 'acc',
      event_id: `evt_${transferId}`,
      event_type: 'transfer.completed',
      transfer_id: transferId,
      body: '{}',
    }));
    await enqueue(installation.sql, deliveries);
  }

  /** Returns how many pending rows Postgres reads during some work. */
  async function pendingRowsRead(work: (tx: Transaction) => Promise<unknown>): Promise<number> {
    return (await installation.sql.begin(async (tx) => {
      const before = await rowsRead(tx, 'work.pending_deliveries');
      await work(tx);
      return (await rowsRead(tx, 'work.pending_deliveries')) - before;
    })) as number;
  }

  it('of a backlog get the places that other webhooks leave, and are not all read', async () => {
    const webhooks = await Promise.all(
      Array.from({ length: 11 }, () => addWebhook(installation, URL, ['transfer.completed'])),
    );
    await runOutbox(installation);
    const [backlog, ...others] = webhooks as [string, ...string[]];
    for (const webhookId of others) await addPending(webhookId, ['txr_1']);
    await addPending(
      backlog,
      Array.from({ length: 1_000 }, (_, i) => `txr_${i}`),
    );
    const places = { free: 40, held: 0, healthy: true };
    const capacity = {
      ...{ healthy: 44, unproven: 0, each: 8 },
      webhooks: new Map(webhooks.map((webhookId) => [webhookId, places])),
    };
    let claimed: string[] = [];
    const read = await pendingRowsRead(async (tx) => {
      const { claims } = await claimDeliveries(tx, capacity);
      claimed = claims.map(({ webhook_id }) => webhook_id);
    });
    expect(claimed.filter((webhookId) => webhookId === backlog)).toHaveLength(34);
    expect(new Set(claimed).size).toBe(11);
    expect(read).toBeLessThan(300);
  });

  it('of a transfer are due without an attempt also if the clock has stepped back', async () => {
    const { sql } = installation;
    const webhooks = ['whk_a', 'whk_b', 'whk_own', 'whk_other'];
    for (const id of webhooks) await addPending(id, [id === 'whk_other' ? 'txr_2' : 'txr_1']);
    await sql`
      update work.pending_deliveries
         set due_at = now() + interval '1 hour',
             tries = case when webhook_id = 'whk_b' then 1 else 0 end,
             claim_id = case when webhook_id = 'whk_own' then 'clm_1' end`;
    const { due } = await findDueWebhooks(sql, webhooks, ['txr_1', 'txr_3'], ['clm_1']);
    expect(due).toEqual(['whk_a']);
  });

  it('that are retried later are not read to find what is due', async () => {
    const { sql } = installation;
    await addPending(
      'whk_a',
      Array.from({ length: 1_000 }, (_, i) => `txr_${i}`),
    );
    // For statistics by which all are due.
    await sql`analyze work.pending_deliveries`;
    await sql`update work.pending_deliveries set due_at = now() + interval '1 hour', tries = 1`;
    const read = await pendingRowsRead(async (tx) => {
      const { due } = await findDueWebhooks(tx, ['whk_a'], ['txr_1', 'txr_new'], []);
      expect(due).toEqual([]);
    });
    expect(read).toBeLessThan(10);
  });

  describe('that are being purged', () => {
    const PAYLOAD = '{"id":"evt_1","type":"ping"}';
    const delivery = {
      webhook_id: 'whk_a',
      account_id: 'acc',
      event_id: 'evt_1',
      event_type: 'ping',
      transfer_id: null,
      body: PAYLOAD,
    };

    /** Runs work that waits for a purge, which then commits. Returns the rows that are left. */
    async function duringPurge(work: (id: string) => Promise<unknown>) {
      const { sql } = installation;
      await enqueue(sql, [delivery]);
      await end('whk_a', 'failed', '31 days');
      const [{ id }] = await sql<[{ id: string }]>`select id from work.deliveries`;
      const purge = await holdRows(
        sql,
        (tx) => tx`select work.purge_deliveries('7 days', '30 days', 10)`,
      );
      const done = work(id);
      await until('it waits', async () => (await purge.waiting('work.deliveries')) > 0);
      await purge.release();
      await done;
      const deliveries = await sql<{ id: string; status: string }[]>`
        select id, status from work.deliveries`;
      const pending = await sql<{ delivery_id: string }[]>`
        select delivery_id from work.pending_deliveries`;
      return { deliveries: [...deliveries], pending: [...pending] };
    }

    it('are not found by a redelivery', async () => {
      const left = await duringPurge((id) =>
        expect(
          redeliver(installation.sql, { deliveryId: id, enabled: true }),
        ).rejects.toMatchObject({ code: 'not_found' }),
      );
      expect(left).toEqual({ deliveries: [], pending: [] });
    });

    it('are left out of a retry of all that failed', async () => {
      const left = await duringPurge(async () =>
        expect(
          await retryFailedDeliveries(installation.sql, { webhook_id: 'whk_a', enabled: true }),
        ).toBe(0),
      );
      expect(left).toEqual({ deliveries: [], pending: [] });
    });

    it('are created again by a replay', async () => {
      const left = await duringPurge(() => enqueueAgain(installation.sql, [delivery]));
      const id = left.deliveries[0]?.id;
      expect(left).toEqual({
        deliveries: [{ id, status: 'pending' }],
        pending: [{ delivery_id: id }],
      });
    });

    it('stay if they are scheduled again first, and the purge does not wait', async () => {
      const { sql } = installation;
      const id = await ping(sql, { webhookId: 'whk_a', accountId: 'acc' });
      await end('whk_a', 'failed', '31 days');
      const lock = await holdRows(sql, (tx) => redeliver(tx, { deliveryId: id, enabled: true }));
      await purgeDeliveries(sql);
      await lock.release();
      expect(await getDelivery(sql, id)).toMatchObject({ status: 'pending' });
    });
  });

  it('that are missing leave no pending rows', async () => {
    const { sql } = installation;
    await sql`
      insert into work.pending_deliveries (delivery_id, webhook_id, event_id, lease_until) values
        ('dlv_claimed', 'whk_a', 'evt_1', now() + interval '1 minute'),
        ('dlv_given_up', 'whk_a', 'evt_2', now() - interval '1 minute')`;
    const id = await ping(sql, { webhookId: 'whk_a', accountId: 'acc' });
    await sql`
      update work.pending_deliveries set lease_until = now() - interval '1 minute'
       where delivery_id = ${id}`;
    await purgeDeliveries(sql);
    const left = await sql<{ delivery_id: string }[]>`
      select delivery_id from work.pending_deliveries`;
    expect(left.map(({ delivery_id }) => delivery_id).toSorted()).toEqual(
      ['dlv_claimed', id].toSorted(),
    );
  });

  it('are not all read to find those that are missing', async () => {
    await addPending(
      'whk_a',
      Array.from({ length: 1_000 }, (_, i) => `txr_${i}`),
    );
    const purge = (tx: Transaction) => tx`select work.purge_deliveries('7 days', '30 days', 10)`;
    expect(await pendingRowsRead(purge)).toBeLessThan(500);
  });
});
