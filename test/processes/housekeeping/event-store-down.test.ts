import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { PROJECTIONS, projectionConsumer } from '../../../src/projections/read-models.ts';
import { isCaughtUp } from '../../../src/projections/read-to-end.ts';
import { startService } from '../../../src/service.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../../support/event-store/fake/server.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG, longUnless } from '../../support/run/long.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';

const catalog = projectionConsumer(PROJECTIONS.catalog);

describeWithPostgres('a service whose event store does not answer', () => {
  let log: FakeEventStoreDb;
  let installation: TestInstallation;
  beforeEach(async () => {
    log = await startFakeEventStoreDb();
    installation = await openTestInstallation({ EVENTSTORE_URL: log.url });
  });
  afterEach(async () => {
    await installation?.close();
    log?.close();
  });

  for (const [state, fail] of [
    ['is down', () => log.stop()],
    ['hangs', () => log.hang(true)],
  ] as const)
    it(`stops on request while the store ${state}`, longUnless(state === 'hangs'), async () => {
      const service = await startService(installation, ['projector', 'monitor', 'webhooks', 'api']);
      fail();
      await sleep(1_000);
      const started = performance.now();
      await service.stop();
      expect(performance.now() - started).toBeLessThan(12_000);
    });

  it('does not wait forever for the state of a consumer', {
    timeout: 40_000,
    ...LONG,
  }, async () => {
    log.stop();
    await expect(isCaughtUp(installation, catalog)).rejects.toThrow('sent nothing to catalog');
  });

  it('stops that wait on request', LONG, async () => {
    log.stop();
    const asked = isCaughtUp(installation, catalog, { signal: AbortSignal.timeout(500) });
    const late = sleep(3_000, 'no answer');
    expect(await Promise.race([asked, late])).toBe(false);
  });
});
