import { afterAll, beforeAll, expect, test } from 'vitest';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { newId } from '../../../src/domain/ids.ts';
import type { TransferEvent } from '../../../src/domain/transfers/transfer.ts';
import { dispatchConsumer } from '../../../src/processes/dispatch/consumer.ts';
import { PRIORITY_OFFSET_MS } from '../../../src/processes/dispatch/decide.ts';
import { T1, T2, TRANSFER_EVENTS, transferCreated } from '../../support/domain/samples.ts';
import { holdRows } from '../../support/postgres/row-locks.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { until } from '../../support/service/transfers.ts';

const HOUR_MS = 3_600_000;

describeWithPostgres('the jobs of transfers', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  const created = (id: string): TransferEvent => ({
    type: 'transfer.created',
    data: transferCreated({ transfer_id: id }),
  });
  const { admitted, started, retry, cancelled, priority } = TRANSFER_EVENTS;

  function placed(id: string, events: TransferEvent[], first = 0): StoredEvent[] {
    const metadata = {
      actor: 'test',
      account_id: 'acc_default',
      correlation_id: 'test',
      causation_id: null,
      occurred_at: T1,
      prev_hash: null,
    };
    return events.map((event, i) => {
      return {
        ...event,
        id: newId('evt'),
        schema_version: 1,
        metadata,
        stream: `transfer-${id}`,
        revision: first + i,
        position: 1n,
      };
    });
  }

  const apply = (events: StoredEvent[]) =>
    database.sql.begin((tx) => dispatchConsumer.apply(tx, events));

  test('that wait for a retry are due when the log says', async () => {
    const id = newId('txr');
    await apply(placed(id, [created(id), admitted, started, retry]));
    expect(
      await database.sql`select due_at, rank from work.transfer_jobs where transfer_id = ${id}`,
    ).toEqual([{ due_at: T2, rank: T2 }]);
  });

  test('wait no longer for a retry than they were to, by a clock that is ahead', async () => {
    const id = newId('txr');
    const now = Date.now() + 24 * HOUR_MS;
    const error = { ...retry.data.error, occurred_at: new Date(now).toISOString() };
    const ahead = {
      ...retry,
      data: { ...retry.data, error, not_before: new Date(now + HOUR_MS).toISOString() },
    };
    await apply(placed(id, [created(id), admitted, started, ahead]));
    const [row] = await database.sql`
      select due_at > now() as waits, due_at <= now() + interval '1 hour' as not_longer, rank = due_at as in_turn
        from work.transfer_jobs where transfer_id = ${id}`;
    expect(row).toEqual({ waits: true, not_longer: true, in_turn: true });
  });

  test('get a new place in the queue with their priority, and keep their time and claim', async () => {
    const [due, later] = [newId('txr'), newId('txr')];
    const error = { ...retry.data.error, occurred_at: new Date().toISOString() };
    const not_before = new Date(Date.now() + HOUR_MS).toISOString();
    const waiting = { ...retry, data: { ...retry.data, error, not_before } };
    await apply(placed(due, [created(due)]));
    await apply(placed(later, [created(later), admitted, started, waiting]));
    // A mover took the claim, and the log does not show it yet.
    await database.sql`
      update work.transfer_jobs set claim_id = 'clm_2', claimed_by = 'here', lease_until = ${T2}
       where transfer_id = ${due}`;
    const rows = () => database.sql`
      select transfer_id, status, priority, due_at, rank, claim_id, claimed_by, lease_until
        from work.transfer_jobs where transfer_id in (${due}, ${later})`;
    const before = new Map((await rows()).map((row) => [row.transfer_id, row]));
    await apply([...placed(due, [priority], 1), ...placed(later, [priority], 4)]);
    const after = await rows();
    expect(after).toHaveLength(2);
    for (const row of after) {
      const { due_at } = row;
      expect(row).toEqual({
        ...before.get(row.transfer_id),
        priority: 'high',
        rank: new Date(Date.parse(due_at) + PRIORITY_OFFSET_MS.high).toISOString(),
      });
    }
  });

  test('are locked in one order, those that go with those that stay', async () => {
    const [first, second] = [newId('txr'), newId('txr')].sort() as [string, string];
    await apply([...placed(first, [created(first)]), ...placed(second, [created(second)])]);
    const row = await holdRows(
      database.sql,
      (tx) => tx`select from work.transfer_jobs where transfer_id = ${first} for update`,
    );
    const applied = apply([...placed(second, [cancelled], 1), ...placed(first, [admitted], 1)]);
    await until(
      'it waits for the first',
      async () => (await row.waiting('work.transfer_jobs')) > 0,
    );
    const free =
      await database.sql`select from work.transfer_jobs where transfer_id = ${second} for update skip locked`;
    await row.release();
    await applied;
    expect(free).toHaveLength(1);
    expect(
      await database.sql`select transfer_id, status from work.transfer_jobs where transfer_id in (${first}, ${second})`,
    ).toEqual([{ transfer_id: first, status: 'queued' }]);
  });

  test('need no transaction for events that the process recorded when it appended them', async () => {
    const [open, ended] = [newId('txr'), newId('txr')];
    const inOneStatement = async (events: StoredEvent[]) =>
      (await dispatchConsumer.inOneStatement?.(database.sql, events)) !== null;
    const first = [...placed(open, [created(open)]), ...placed(ended, [created(ended)])];
    expect(await inOneStatement(first)).toBe(false);
    await apply(first);

    const queued = placed(open, [admitted], 1);
    const end = placed(ended, [cancelled], 1);
    expect(await inOneStatement(queued)).toBe(false);
    expect(await inOneStatement(end)).toBe(false);
    await apply([...queued, ...end]);
    const row = await holdRows(
      database.sql,
      (tx) => tx`select from work.transfer_jobs where transfer_id = ${open} for update`,
    );
    expect(await inOneStatement([...queued, ...end])).toBe(true);
    expect(await inOneStatement(placed(open, [started], 2))).toBe(false);
    await row.release();
  });
});
