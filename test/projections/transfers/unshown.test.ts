import { afterAll, beforeAll, expect, it } from 'vitest';
import { streamName } from '../../../src/domain/events/streams.ts';
import { newestUnshown, unshownTransfers } from '../../../src/projections/transfers/unshown.ts';
import { transferCreated } from '../../support/domain/samples.ts';
import { rowsRead } from '../../support/postgres/rows-read.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';

/** More than a request looks at. */
const OTHER_EVENTS = 5_000;

describeWithPostgres('while the read model is far behind the log, a request', () => {
  let installation: TestInstallation;
  let first: bigint;
  beforeAll(async () => {
    installation = await openTestInstallation();
    first = await create('txr_first', 'acc_first');
    await appendOthers();
  });
  afterAll(() => installation?.close());

  let events = 0;
  const event = (type: string, data: object) => ({
    id: `evt_${++events}`,
    type,
    schema_version: 1,
    data: { ...data },
    metadata: {
      account_id: null,
      actor: 'test',
      causation_id: null,
      correlation_id: 'test',
      occurred_at: '2026-01-01T00:00:00.000Z',
      prev_hash: null,
    },
  });

  async function create(id: string, account: string): Promise<bigint> {
    const created = transferCreated({ transfer_id: id, account_id: account });
    const { position } = await installation.store.append(streamName('transfer', id), 'no_stream', [
      event('transfer.created', created),
    ]);
    return position;
  }

  async function appendOthers(): Promise<void> {
    const others = Array.from({ length: OTHER_EVENTS }, () => event('key.created', {}));
    await installation.store.append(streamName('key', `key_${events}`), 'no_stream', others);
  }

  async function look() {
    const { derived, store } = installation;
    return derived.begin(async (tx) => {
      const before = await rowsRead(tx, 'log.events');
      const [row] = await tx<{ newest: bigint | null; accounts: string[] | null }[]>`
        select ${newestUnshown(tx, store) ?? tx`null`} as newest,
               (select array_agg(account_id order by account_id)
                  from (${unshownTransfers(tx, store) ?? tx``}) t) as accounts`;
      return { ...row, rows: (await rowsRead(tx, 'log.events')) - before };
    });
  }

  it('waits for the oldest event that it looked at, as creations may be before it', async () => {
    const { newest } = await look();
    expect(newest).toBeGreaterThan(first);
    expect(newest).toBeLessThan(first + BigInt(OTHER_EVENTS));
  });

  it('waits for the newest creation, and counts it, if that is among the newest events', async () => {
    const second = await create('txr_second', 'acc_second');
    await create('txr_third', 'acc_third');
    const { newest, accounts } = await look();
    expect(newest).toBe(second + 1n);
    expect(accounts).toEqual(['acc_second', 'acc_third']);
  });

  it('reads no more events than before when the log gets longer', async () => {
    const { rows } = await look();
    expect(rows).toBeGreaterThan(0);
    await appendOthers();
    expect((await look()).rows).toBe(rows);
  });

  it('waits for nothing once the read model shows all', async () => {
    const { store, commands } = installation;
    await commands.waitFor('transfers', await store.head());
    expect(await look()).toMatchObject({ newest: null, accounts: null, rows: 0 });
  });
});
