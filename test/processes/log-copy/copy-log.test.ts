import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import { type EventStore, EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../src/adapters/event-store/postgres/log.ts';
import { chain } from '../../../src/domain/events/chain.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import { newId } from '../../../src/domain/ids.ts';
import { leafOf } from '../../../src/domain/proof/leaf.ts';
import { copyLog } from '../../../src/processes/log-copy/copy-log.ts';
import { readLog } from '../../../src/projections/read-log.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../../support/event-store/fake/server.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli } from '../../support/service/cli.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';
import { writeSmallLog } from '../verification/tamper/small-log.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

describeWithPostgres('a copy of the log', () => {
  let installation: TestInstallation;
  let server: FakeEventStoreDb;
  let copies = 0;
  const stores: EventStore[] = [];

  beforeAll(async () => {
    installation = await openTestInstallation();
    await writeSmallLog(installation);
    server = await startFakeEventStoreDb();
  });
  afterAll(async () => {
    await Promise.all(stores.map((store) => store.close()));
    server?.close();
    await installation?.close();
  });

  function newCopy(): EventStore {
    const store = createEventStoreDb({ url: server.url, prefix: `copy${++copies}_` });
    stores.push(store);
    return store;
  }

  function copyTo(store: EventStore, from = installation.store) {
    return copyLog(from, store, () => undefined);
  }

  async function eventsIn(store: EventStore): Promise<StoredEvent[]> {
    const found: StoredEvent[] = [];
    for await (const { events } of readLog(store, { from: null })) found.push(...events);
    return found;
  }

  it('has every event, in order, in an EventStoreDB and back in Postgres', async () => {
    const original = await eventsIn(installation.store);
    const copy = newCopy();
    expect(await copyTo(copy)).toMatchObject({
      events: original.length,
      appended: original.length,
    });
    expect((await eventsIn(copy)).map(leafOf)).toEqual(original.map(leafOf));

    const back = createPostgresLog({ sql: installation.sql, prefix: 'back_' });
    stores.push(back);
    await copyTo(back, copy);
    expect((await eventsIn(back)).map(leafOf)).toEqual(original.map(leafOf));
  });

  it('continues after an interruption between any two appends, and copies later events', async () => {
    const original = await eventsIn(installation.store);
    const copy = newCopy();
    let left = 3;
    let answersLost = false;
    const failing: EventStore = {
      ...copy,
      async append(...given) {
        if (left === 0 && !answersLost) throw new EventStoreUnavailable('away');
        const result = await copy.append(...given);
        if (left === 0) throw new EventStoreUnavailable('the answer was lost');
        left--;
        return result;
      },
    };
    await expect(copyTo(failing)).rejects.toThrow('away');
    answersLost = true;
    await expect(copyTo(failing)).rejects.toThrow('the answer was lost');
    const { appended } = await copyTo(copy);
    expect(appended).toBeLessThan(original.length - 3);
    expect((await eventsIn(copy)).map(leafOf)).toEqual(original.map(leafOf));
    expect(await copyTo(copy)).toMatchObject({ events: original.length, appended: 0 });
  });

  it('is made by the command', async () => {
    const cli = createCli(installation.environment);
    const { code, json, stderr } = await cli.run(['log', 'copy', '--to', server.url, '--json']);
    expect(code, stderr).toBe(0);
    const events = await eventsIn(installation.store);
    const { length } = events;
    // A copy is an export of the log. Its record is in the copy, too.
    expect(events.at(-1)).toMatchObject({
      type: 'access.exported',
      data: { export: 'log', parameters: { to: server.url.split('?')[0] } },
    });
    expect(json()).toEqual([
      {
        ...{ events: length, appended: length, switched: false },
        root_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    ]);
    // A shell passes an empty text for a variable that is not set.
    expect(await cli.run(['log', 'copy', '--to', ''])).toMatchObject({ code: 2, stdout: '' });
    expect(await cli.run(['log', 'copy', '--to', 'embedded'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/The log is in Postgres already/),
    });
    expect(await cli.run(['log', 'copy', '--to', 'localhost:2113'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--to takes the URL of an EventStoreDB/),
    });
  });

  it('takes the sign-in of the copy from the settings', async () => {
    const signIn = { WAYBILL_EVENTSTORE_USER: 'me', WAYBILL_EVENTSTORE_PASSWORD: 'secret' };
    const settings = { ...signIn, WAYBILL_EVENTSTORE_CA_FILE: '/nowhere' };
    const cli = createCli({ ...installation.environment, ...settings });
    const to = 'esdb://127.0.0.1:1?tls=true';
    expect(await cli.run(['log', 'copy', '--to', to])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/WAYBILL_EVENTSTORE_CA_FILE .* cannot be used: ENOENT/),
    });
  });

  it('records no password, and rejects a URL of which a part would be taken for one', async () => {
    // One process uses one URL at a time.
    await Promise.all(stores.splice(0).map((store) => store.close()));
    const cli = createCli(installation.environment);
    const to = server.url.replace('://', '://me:can%2Fary@');
    const { code, stderr } = await cli.run(['log', 'copy', '--to', to, '--json']);
    expect(code, stderr).toBe(0);
    expect((await eventsIn(installation.store)).at(-1)).toMatchObject({
      data: { parameters: { to: server.url.split('?')[0] } },
    });
    for (const signIn of ['me:can/ary', 'me:can?ary', 'me:can@ary', 'm/e:canary']) {
      const unclear = server.url.replace('://', `://${signIn}@`);
      const rejected = await cli.run(['log', 'copy', '--to', unclear]);
      expect(rejected).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/@ after its address: .* as %XX/),
      });
      expect(rejected.stderr).not.toMatch(/can|ary/);
    }
    const recorded = (await eventsIn(installation.store)).map(({ data }) => data);
    expect(JSON.stringify(recorded)).not.toMatch(/me:|m\/e/);
  });

  it('rejects a store with another log, and leaves it as it is', async () => {
    const [opened, ...rest] = await eventsIn(installation.store);
    const copy = newCopy();
    const { stream, ...event } = opened as StoredEvent;
    const other = { ...event, data: { log_id: 'other' } };
    await copy.append(stream, 'no_stream', [other]);
    await expect(copyTo(copy)).rejects.toThrow(/has another log: its event 1 is not that/);
    expect(await eventsIn(copy)).toHaveLength(1);

    const longer = newCopy();
    await copyTo(longer);
    const last = rest.at(-1) as StoredEvent;
    await longer.append('key-key_other', 'no_stream', [
      { ...last, id: 'evt_7ZZZZZZZZZZZZZZZZZZZZZZZZ1' },
    ]);
    await expect(copyTo(longer)).rejects.toThrow(/has another log/);
  });

  it('has events in a row that are too large for one append', async () => {
    const { store } = installation;
    const stream = streamName('flow', newId('flo'));
    const decided = Array.from({ length: 25 }, () => ({
      type: 'flow.files_skipped',
      data: { files: [], through: 'x'.repeat(60 << 10), last: false, skipped_at: '' },
    }));
    const causation = { account_id: null, actor: 'test', causation_id: null, correlation_id: 'x' };
    const events = chain(decided, null, causation, { now: new Date().toISOString() });
    for (const [i, event] of events.entries())
      await store.append(stream, i === 0 ? 'no_stream' : i - 1, [event]);
    const copy = newCopy();
    await copyTo(copy);
    expect(await copy.read(stream)).toHaveLength(events.length);
  });
});
