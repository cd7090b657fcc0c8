import { expect, onTestFinished, test } from 'vitest';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { endAttempt, startTransfer } from '../../../src/commands/transfers.ts';
import { newId } from '../../../src/domain/ids.ts';
import { runAfterSteps } from '../../../src/processes/after/worker.ts';
import { dispatchConsumer } from '../../../src/processes/dispatch/consumer.ts';
import { createEndpointPool } from '../../../src/processes/endpoints/pool.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import { COPIED } from '../../support/domain/samples.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
} from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';

describeWithPostgres('steps after a transfer', () => {
  test.each([
    ['its end', 2],
    ['all of it', 0],
  ])('wait if a former leader of an EventStoreDB lacks %s', async (_, lacksFrom) => {
    const installation = await openTestInstallation();
    const { commands, sql } = installation;
    const file = { protocol: 'sftp', host: '127.0.0.1', port: 9, username: 'u', password: 'p' };
    await configureEndpoint(installation, { ...file, name: 'files' });
    const id = await submit(installation, 'sftp://files/a', 'sftp://files/b', {
      after: { source: 'delete' },
    });
    const claimId = newId('clm');
    await startTransfer(commands, id, { claimId, source: null, destination: null }, CAUSE);
    await endAttempt(commands, id, claimId, COPIED, CAUSE);
    await catchUpIfIdle(installation, dispatchConsumer);

    let reads = 0;
    const store: EventStore = {
      ...installation.store,
      staleMs: 10_000,
      async read(...what) {
        const events = await installation.store.read(...what);
        return reads++ === 0 ? events.filter(({ revision }) => revision < lacksFrom) : events;
      },
    };
    const pool = createEndpointPool({ ...installation, open: () => ({}) as never });
    const stop = new AbortController();
    const deps = { sql, durable: sql, store, logger: installation.logger, actor: 'system:test' };
    const places = { sources: pool, destinations: pool, retryDelays: [] };
    const running = runAfterSteps({ ...deps, ...places }, stop.signal);
    onTestFinished(async () => {
      stop.abort();
      await running;
      await installation.close();
    });
    const row = async () =>
      (await sql`select claim_id from work.after_steps where transfer_id = ${id}`)[0];
    await until('the stream is read', () => reads > 0);
    await until('the claim is given back', async () => (await row())?.claim_id == null);
    expect(await row()).toEqual({ claim_id: null });
  });
});
