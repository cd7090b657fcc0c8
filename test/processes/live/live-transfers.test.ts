import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { cancelTransfer } from '../../../src/commands/transfers.ts';
import type { Transfer } from '../../../src/domain/transfers/transfer.ts';
import type { WaitingFor } from '../../../src/domain/transfers/waiting-for.ts';
import { dispatchConsumer } from '../../../src/processes/dispatch/consumer.ts';
import { createLiveTransfers } from '../../../src/processes/live/live-transfers.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import { whileTableLocked } from '../../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';

type Waits = Map<string, WaitingFor>;

describeWithPostgres('live transfers', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  /** Follows the transfers of accounts, which wait for what `findWaits` returns. */
  function following(findWaits: (transfers: Transfer[]) => Promise<Waits>) {
    const { sql, logger } = installation;
    const live = createLiveTransfers({ sql, logger, findWaits });
    const left = new AbortController();
    onTestFinished(() => left.abort());
    const follow = (account: string | null, signal = left.signal) =>
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

  it('without a job leave the view when they are not recent, and come back with a job', async () => {
    const { commands } = installation;
    await configureEndpoint(installation, {
      ...{ name: 'archive', protocol: 's3', bucket: 'archive' },
      ...{ access_key_id: 'id', secret_access_key: 'secret' },
    });
    const create = () => submit(installation, 'sftp://from/a', 's3://archive/in/');
    const catchUp = () => commands.catchUp('transfers');
    const dispatch = () => catchUpIfIdle(installation, dispatchConsumer);
    /** The transfers that the view has read last, and how often it has read. */
    let read: string[] = [];
    let reads = 0;
    const { follow } = following(async (transfers) => {
      reads++;
      read = transfers.map(({ facts }) => facts.transfer_id);
      return new Map();
    });
    const first = await create();
    await catchUp();
    const updates = follow(null);
    expect(await updates.next()).toMatchObject({
      value: { type: 'snapshot', transfers: [{ transfer: { facts: { transfer_id: first } } }] },
    });

    // As many as the view takes for recent.
    const newer = await Promise.all(Array.from({ length: 200 }, create));
    await catchUp();
    await expect.poll(() => read).not.toContain(first);

    await cancelTransfer(commands, newer[0] as string, CAUSE);
    await catchUp();
    await dispatch();
    await expect.poll(() => read).toContain(first);

    // Its job is gone, and the read model does not show its end yet.
    await cancelTransfer(commands, first, CAUSE);
    await dispatch();
    const before = reads;
    await expect.poll(() => reads).toBeGreaterThan(before + 2);
    expect(read).toContain(first);
    await catchUp();
    for await (const update of updates)
      if (
        update?.transfers.some(
          ({ transfer }) => transfer.facts.transfer_id === first && transfer.status === 'cancelled',
        )
      )
        break;
  });
});
