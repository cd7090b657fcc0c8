import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { WaitingFor } from '../../../src/domain/transfers/waiting-for.ts';
import { createLiveTransfers } from '../../../src/processes/live/live-transfers.ts';
import { whileTableLocked } from '../../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';

type Waits = Map<string, WaitingFor>;

describeWithPostgres('live transfers', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  /** Follows the transfers of accounts, which wait for what `findWaits` returns. */
  function following(findWaits: () => Promise<Waits>) {
    const { sql, logger } = installation;
    const live = createLiveTransfers({ sql, logger, findWaits });
    const left = new AbortController();
    onTestFinished(() => left.abort());
    const follow = (account: string, signal = left.signal) =>
      live.follow({ account, quietMs: 60_000, signal });
    return { follow };
  }

  it('of an account are read while those of another one wait for Postgres', async () => {
    const { promise: waits, resolve } = Promise.withResolvers<Waits>();
    onTestFinished(() => resolve(new Map()));
    let asked = 0;
    const { follow } = following(async () => (asked++ === 0 ? waits : new Map()));
    const first = follow('acc_first').next();
    await expect.poll(() => asked).toBe(1);
    expect(await follow('acc_second').next()).toMatchObject({ value: { type: 'snapshot' } });
    resolve(new Map());
    expect(await first).toMatchObject({ value: { type: 'snapshot' } });
  });

  it('end at the signal while Postgres does not answer the first query', async () => {
    const { follow } = following(async () => new Map());
    await whileTableLocked(installation.sql, 'read.transfers', async () => {
      const stop = new AbortController();
      const first = follow('acc_first', stop.signal).next();
      stop.abort();
      expect(await first).toEqual({ done: true, value: undefined });
    });
  });
});
