import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import { PROJECTIONS, projectionConsumer } from '../../src/projections/read-models.ts';
import { untilCaughtUp } from '../../src/projections/until-caught-up.ts';
import { startService } from '../../src/service.ts';
import { createStartUp } from '../../src/start-up.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../support/service/installation.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

describeWithPostgres('a wait for a log that takes long to read', () => {
  let installation: TestInstallation;
  let store: EventStore;
  beforeAll(async () => {
    installation = await openTestInstallation();
    store = { ...installation.store, subscribe };
  });
  afterAll(() => installation?.close());

  /** A log without an end. Whoever asks for one event gets one, so it has not caught up. */
  const subscribe: EventStore['subscribe'] = async function* ({ signal, batchSize }) {
    for (let position = 1n; !signal.aborted; position++) {
      const events = batchSize === 1 ? [{} as StoredEvent] : [];
      yield { events, position, caughtUp: false };
      await sleep(10);
    }
  };
  const late = () => sleep(60_000, 'late', { ref: false });

  it('ends when it is stopped while it reads the log itself', async () => {
    const waiting = untilCaughtUp(
      { ...installation, store },
      projectionConsumer(PROJECTIONS.catalog),
      AbortSignal.timeout(300),
      { orByOurselves: true },
    );
    expect(await Promise.race([waiting, late()])).toBeUndefined();
  });

  it('does not let a start end with an API that knows no key', async () => {
    const signal = AbortSignal.timeout(300);
    const startUp = createStartUp(installation.config, installation.logger, signal);
    const starting = startService({ ...installation, store }, ['api'], startUp);
    await expect(Promise.race([starting, late()])).rejects.toThrow(
      expect.objectContaining({ name: 'TimeoutError' }),
    );
  });

  it('ends with the log as it was at its begin, if it grows all the time', async () => {
    const growing: EventStore = {
      ...installation.store,
      async *subscribe(options) {
        await appendTransfer(installation.store, []);
        yield* installation.store.subscribe(options);
      },
    };
    const waiting = untilCaughtUp(
      { ...installation, store: growing },
      projectionConsumer(PROJECTIONS.proof),
      AbortSignal.timeout(30_000),
      { orByOurselves: true },
    );
    expect(await Promise.race([waiting.then(() => 'caught up'), late()])).toBe('caught up');
  });
});
