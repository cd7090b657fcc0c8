import pino from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import type { CommandDeps } from '../../src/commands/deps.ts';
import { removeEndpoint } from '../../src/commands/endpoints.ts';
import { handle } from '../../src/commands/handle.ts';
import { createEndpoint, saveEndpoint } from '../../src/commands/save-endpoint.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { endpointDecider } from '../../src/domain/endpoints/decider.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { type Installation, openInstallation } from '../../src/installation.ts';
import { recordsInUse } from '../../src/projections/catalog/queries.ts';
import { lockOf } from '../../src/projections/consumer.ts';
import { endpointConfigured } from '../support/domain/samples.ts';
import { startFakeEventStoreDb } from '../support/event-store/fake/server.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';

const TAKEN = {
  code: 'validation_failed',
  details: { errors: [expect.objectContaining({ field: 'name' })] },
  message: expect.stringContaining('is taken by end_'),
};
/** Two processes that both believe that they hold the lock. */
const LOCKLESS: Pick<CommandDeps, 'exclusively'> = { exclusively: (_, work) => work(() => {}) };

const request = (name: string, username = 'me') =>
  endpointRequest.parse({ name, protocol: 'sftp', host: 'h.example.com', username, password: 'p' });

/** Waits for both callers once. Later calls pass. */
function meeting(): () => Promise<void> {
  let arrived = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  return () => {
    arrived += 1;
    if (arrived === 2) resolve();
    return promise;
  };
}

suite('Postgres', async () => ({}));
suite('EventStoreDB', async () => {
  const log = await startFakeEventStoreDb();
  return { settings: { EVENTSTORE_URL: log.url }, stop: async () => log.stop() };
});

interface Engine {
  settings?: Record<string, string>;
  stop?(): Promise<unknown>;
}

function suite(engineName: string, start: () => Promise<Engine>): void {
  describeWithPostgres(`an endpoint name, with the log in ${engineName}`, () => {
    const closers: (() => Promise<unknown>)[] = [];
    let here: TestInstallation;
    let elsewhere: Installation;
    beforeAll(async () => {
      const { settings, stop } = await start();
      if (stop) closers.push(stop);
      here = await openTestInstallation(settings);
      closers.push(() => here.close());
      elsewhere = await openInstallation(here.config, pino({ level: 'silent' }));
      closers.push(() => elsewhere.close());
    });
    afterAll(async () => {
      for (const close of closers.reverse()) await close();
    });

    /** Runs `step` before each append of an endpoint's own events. */
    const before = (step: () => Promise<unknown>): { store: EventStore } => ({
      store: {
        ...here.store,
        async append(stream, ...rest) {
          if (stream.startsWith('endpoint-')) await step();
          return here.store.append(stream, ...rest);
        },
      },
    });
    const dies = () => Promise.reject(new EventStoreUnavailable('gone'));
    const create = (changes: Partial<CommandDeps>, name: string, id = newId('end'), user = 'me') =>
      createEndpoint({ ...here.commands, ...changes }, request(name, user), CAUSE, id);
    const shown = async (name: string) =>
      (await here.commands.endpoints()).filter((endpoint) => endpoint.name === name);
    const loseLocks = () => here.sql`
      select pg_terminate_backend(pid, 5000) from pg_stat_activity
       where application_name = 'waybill locks' and datname = current_database()`;

    it('belongs to one endpoint when two processes create it without a lock', async () => {
      const [looked, appended] = [meeting(), meeting()];
      const deps = {
        ...LOCKLESS,
        ...before(appended),
        async endpoints() {
          const found = await here.commands.endpoints();
          await looked();
          return found;
        },
      };
      const ids = [newId('end'), newId('end')] as const;
      const results = await Promise.allSettled([
        create(deps, 'both', ids[0], 'first'),
        create(deps, 'both', ids[1], 'second'),
      ]);
      const won = results.filter((result) => result.status === 'fulfilled');
      expect(won).toHaveLength(1);
      expect(results.find(({ status }) => status === 'rejected')).toMatchObject({ reason: TAKEN });
      const [endpoint, ...others] = await shown('both');
      expect(others).toEqual([]);
      expect(endpoint).toMatchObject({
        endpoint_id: won[0]?.value.endpointId,
        credentials_record: won[0]?.value.state.credentials_record,
        settings: { username: results[0]?.status === 'fulfilled' ? 'first' : 'second' },
      });

      await here.sql`update work.vault set created_at = now() - interval '2 hours'`;
      await here.vault.sweep((ids) => recordsInUse(here.sql, ids));
      const kept = await here.sql`select id from work.vault`;
      expect(kept).toEqual([{ id: endpoint?.credentials_record }]);
    });

    it('goes to the second process if the first loses its lock before the append', async () => {
      let second: string | undefined;
      const overtaken = before(async () => {
        await loseLocks();
        second = (
          await createEndpoint(elsewhere.commands, request('overtaken'), CAUSE, newId('end'))
        ).endpointId;
      });
      await expect(create(overtaken, 'overtaken')).rejects.toMatchObject(TAKEN);
      expect((await shown('overtaken')).map(({ endpoint_id }) => endpoint_id)).toEqual([second]);
    });

    it('is not claimed after the lock is lost, and is free for the next request', async () => {
      const deps: Partial<CommandDeps> = {
        async endpoints() {
          const found = await here.commands.endpoints();
          await loseLocks();
          while (await here.locks.isHeld('endpoint-name:lost').catch(() => true));
          return found;
        },
      };
      await expect(create(deps, 'lost')).rejects.toMatchObject({ code: 'unavailable' });
      expect(await here.store.read('endpoint_name-lost')).toEqual([]);
      expect((await create({}, 'lost')).created).toBe(true);
    });

    it('is free after a crash between claim and configuration', async () => {
      for (const again of [
        (name: string) => create({}, name),
        (name: string) => saveEndpoint(here.commands, request(name), CAUSE),
      ]) {
        const name = `crashed-${newId('end').slice(-8).toLowerCase()}`;
        await expect(create(before(dies), name)).rejects.toThrow('gone');
        const saved = await again(name);
        expect(saved.created).toBe(true);
        expect((await shown(name)).map(({ endpoint_id }) => endpoint_id)).toEqual([
          saved.endpointId,
        ]);
        await expect(create({}, name)).rejects.toMatchObject(TAKEN);
      }
    });

    it('does not go to a repeated request whose id another request has adopted', async () => {
      const id = newId('end');
      await expect(create(before(dies), 'adopted', id, 'first')).rejects.toThrow('gone');
      const adopter = await create({}, 'adopted', newId('end'), 'second');
      expect(adopter.endpointId).toBe(id);
      await expect(create({}, 'adopted', id, 'first')).rejects.toMatchObject(TAKEN);
      expect((await shown('adopted'))[0]?.settings).toMatchObject({ username: 'second' });

      await removeEndpoint(here.commands, id, CAUSE);
      const reborn = await create({}, 'adopted', id, 'first');
      expect(reborn.endpointId).not.toBe(id);
      expect(await shown('adopted')).toHaveLength(1);
    });

    it('goes to a repeated request that adopted an id and then crashed', async () => {
      await expect(create(before(dies), 'repeated')).rejects.toThrow('gone');
      const id = newId('end');
      const waitFor = () => dies();
      await expect(create({ waitFor }, 'repeated', id)).rejects.toThrow('gone');
      const again = await create({}, 'repeated', id);
      expect(again).toMatchObject({ created: true, revision: 0 });
      expect(again.endpointId).not.toBe(id);
      expect(await create({}, 'repeated', id)).toMatchObject({ endpointId: again.endpointId });
      expect(await here.store.read(streamName('endpoint', again.endpointId))).toHaveLength(1);
    });

    it('changes its holder only after a removal', async () => {
      const first = await create({}, 'handed-on');
      await expect(create({}, 'handed-on')).rejects.toMatchObject(TAKEN);
      await removeEndpoint(here.commands, first.endpointId, CAUSE);
      const second = await create({}, 'handed-on');
      const claims = await here.store.read('endpoint_name-handed-on');
      expect(claims.map(({ data }) => data)).toEqual(
        [first, second].map(({ endpointId }) => ({ name: 'handed-on', endpoint_id: endpointId })),
      );
    });

    it('is taken by an endpoint without a claim, in the catalog or not yet', async () => {
      const endpoint_id = newId('end');
      const held = await elsewhere.locks.acquire(lockOf('catalog'), new AbortController().signal);
      const data = { ...endpointConfigured(), endpoint_id, name: 'older' };
      await handle(
        here.store,
        endpointDecider,
        streamName('endpoint', endpoint_id),
        { type: 'configure', data },
        CAUSE,
      );
      await expect(create({}, 'older')).rejects.toMatchObject({ code: 'unavailable' });
      expect(await here.store.read('endpoint_name-older')).toEqual([]);
      await held.release();
      await expect(create({}, 'older')).rejects.toMatchObject(TAKEN);
      expect((await shown('older')).map((endpoint) => endpoint.endpoint_id)).toEqual([endpoint_id]);
    });
  });
}
