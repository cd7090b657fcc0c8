import pino from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import { EXIT } from '../../../src/cli/program/exit-codes.ts';
import { registerWebhook } from '../../../src/commands/webhooks.ts';
import { parseConfig } from '../../../src/config.ts';
import { createIdempotencyKeys } from '../../../src/http/idempotency/table.ts';
import { type Installation, openInstallation } from '../../../src/installation.ts';
import { dispatchConsumer } from '../../../src/processes/dispatch/consumer.ts';
import { copyLog } from '../../../src/processes/log-copy/copy-log.ts';
import { followCopy } from '../../../src/processes/log-copy/follow-copy.ts';
import { createOutboxConsumer } from '../../../src/processes/webhooks/outbox.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../../support/event-store/fake/server.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { createCli } from '../../support/service/cli.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';

describeWithPostgres('an installation that moves to the copy of its log', () => {
  let before: TestInstallation;
  let server: FakeEventStoreDb;
  beforeAll(async () => {
    before = await openTestInstallation();
    server = await startFakeEventStoreDb();
    await configureEndpoint(before, {
      ...{ name: 'archive', protocol: 's3', bucket: 'archive' },
      ...{ access_key_id: 'id', secret_access_key: 'secret' },
    });
    await registerWebhook(
      before.commands,
      'acc_default',
      { url: 'https://example.com/', events: ['transfer.created'] },
      CAUSE,
    );
  });
  afterAll(async () => {
    server?.close();
    await before?.close();
  });

  async function follow(): Promise<void> {
    const copy = createEventStoreDb({ url: server.url, prefix: before.config.streamPrefix });
    try {
      await followCopy(before, copy, () => copyLog(before.store, copy, () => undefined));
    } finally {
      await copy.close();
    }
  }

  const reopen = (environment: NodeJS.ProcessEnv) =>
    openInstallation(parseConfig(environment), pino({ level: 'silent' }));

  /** Stores the answer of a request, and returns what reads it. */
  async function answerWithKey() {
    const keys = createIdempotencyKeys(before.sql);
    const id = { account_id: 'acc_default', route: 'POST /v1/transfers', key: 'k' };
    await keys.reserve(id, 'hash', {});
    const shown = { transfers: String(2n ** 40n) };
    await keys.storeAnswer(id, 201, { body: '{}', location: '/v1', shown });
    const replayed = async () => {
      const { status, answer } = await keys.reserve(id, 'hash', {});
      return { status, answer };
    };
    expect(await replayed()).toMatchObject({ answer: { shown } });
    return { replayed };
  }

  const eventsDelivered = async ({ sql }: Installation) =>
    (await sql`select event_id from work.deliveries order by event_id`).map(
      ({ event_id }) => event_id,
    );

  async function catchUp(installation: Installation): Promise<void> {
    await catchUpIfIdle(installation, createOutboxConsumer(installation.store));
    await catchUpIfIdle(installation, dispatchConsumer);
    for (const name of ['catalog', 'transfers'] as const)
      expect(await installation.commands.catchUp(name)).toBe(true);
  }

  it('delivers each event once, keeps jobs, and shows what it showed', async () => {
    const first = await submit(before, 'sftp://from/a', 's3://archive/');
    const running = await before.locks.tryAcquire(lockOf('dispatch'));
    await expect(follow()).rejects.toThrow(/runs dispatch: stop all of them first/);
    await running?.release();
    const { replayed } = await answerWithKey();
    await follow();
    // Its position is of the old log. After a move to Postgres, no read model would reach it.
    expect(await replayed()).toEqual({ status: 201, answer: { body: '{}', location: '/v1' } });
    await expect(reopen(before.environment)).rejects.toThrow(
      /not the one in Postgres\. Set EVENTSTORE_URL/,
    );
    const cli = createCli(before.environment as Record<string, string>);
    expect(await cli.run(['transfers', 'list'])).toMatchObject({
      code: EXIT.invalid,
      stderr: expect.stringContaining('Set EVENTSTORE_URL'),
    });
    const old = await eventsDelivered(before);
    expect(old).toHaveLength(1);

    const after = await reopen({ ...before.environment, EVENTSTORE_URL: server.url });
    try {
      expect(after.logId).toBe(before.logId);
      await catchUp(after);
      expect(await eventsDelivered(after)).toEqual(old);
      const second = await submit(after, 'sftp://from/b', 's3://archive/');
      await catchUp(after);
      expect(await eventsDelivered(after)).toHaveLength(2);
      const shown = await after.sql`select transfer_id from read.transfers order by transfer_id`;
      expect(shown.map(({ transfer_id }) => transfer_id)).toEqual([first, second]);
      const jobs = await after.sql`select transfer_id from work.transfer_jobs order by transfer_id`;
      expect(jobs.map(({ transfer_id }) => transfer_id)).toEqual([first, second]);
    } finally {
      await after.close();
    }
  });
});
