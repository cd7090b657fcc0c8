import pino from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { followEngine } from '../../../src/adapters/event-store/engine-of-log.ts';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import { parseConfig } from '../../../src/config.ts';
import type { Check } from '../../../src/health.ts';
import { openInstallation } from '../../../src/installation.ts';
import { copyLog } from '../../../src/processes/log-copy/copy-log.ts';
import { followCopy } from '../../../src/processes/log-copy/follow-copy.ts';
import { RUNNING_SERVICES, WAITS } from '../../../src/processes/log-copy/running-services.ts';
import { type Service, startService } from '../../../src/service.ts';
import { createStartUp } from '../../../src/start-up.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../../support/event-store/fake/server.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';

describeWithPostgres('a service while the log moves to the other engine', () => {
  let operator: TestInstallation;
  let server: FakeEventStoreDb;
  beforeAll(async () => {
    operator = await openTestInstallation({ WAYBILL_PORT: '0' });
    server = await startFakeEventStoreDb();
  });
  afterAll(async () => {
    server?.close();
    await operator?.close();
  });

  /** Runs a service that only serves the API, in an installation of its own. */
  async function withApi(
    work: (starting: Promise<Service>, reported: Record<string, Check>[]) => Promise<void>,
  ): Promise<void> {
    const logger = pino({ level: 'silent' });
    const own = await openInstallation(parseConfig(operator.environment), logger);
    const { signal } = new AbortController();
    const startUp = createStartUp(own.config, logger, signal);
    const reported: Record<string, Check>[] = [];
    const starting = startService(own, ['api'], {
      ...startUp,
      report: (checks) => reported.push(checks),
    });
    try {
      await work(starting, reported);
    } finally {
      const service = await starting.catch(() => null);
      await service?.stop();
      await own.close();
    }
  }

  async function move(): Promise<void> {
    const copy = createEventStoreDb({ url: server.url, prefix: operator.config.streamPrefix });
    try {
      await followCopy(operator, copy, () => copyLog(operator.store, copy, () => undefined));
    } finally {
      await copy.close();
    }
  }

  it('keeps the log where it is', () =>
    withApi(async (starting) => {
      await starting;
      await expect(move()).rejects.toThrow(/still runs: stop all of them first/);
    }));

  it('waits with its start for the end, and says so', async () => {
    const moving = await operator.locks.acquire(RUNNING_SERVICES, new AbortController().signal);
    await withApi(async (starting, reported) => {
      await expect.poll(() => reported).toEqual([{ log: { ok: false, detail: WAITS } }]);
      await moving.release();
      expect((await starting).url).toMatch(/^http:/);
    });
  });

  it('ends if the log has moved when its connection returns', () =>
    withApi(async (starting) => {
      const service = await starting;
      await operator.sql.begin((tx) => followEngine(tx, operator.logId, 'eventstoredb'));
      await operator.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
         where application_name = 'waybill locks' and datname = current_database()`;
      await expect(service.failed).rejects.toThrow(/Set EVENTSTORE_URL/);
    }));
});
