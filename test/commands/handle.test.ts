import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres/log.ts';
import {
  type Cause,
  type HandleOptions,
  handle,
  ofRequest,
  untouched,
} from '../../src/commands/handle.ts';
import {
  rememberStream,
  takeRemembered,
  withAppend,
} from '../../src/commands/remembered-streams.ts';
import { type EndpointCommand, endpointDecider } from '../../src/domain/endpoints/decider.ts';
import type { EndpointState } from '../../src/domain/endpoints/endpoint.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import { newId } from '../../src/domain/ids.ts';
import { endpointConfigured, sftpSettings } from '../support/domain/samples.ts';
import { loseEventsAfter } from '../support/postgres/lose-events.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';

const CAUSE: Cause = { actor: 'cli:ann', correlationId: 'req_1', causationId: 'evt_0' };
const CONFIGURE: EndpointCommand = { type: 'configure', data: endpointConfigured() };

describeWithPostgres('handle', () => {
  let database: TestDatabase;
  let store: EventStore;
  beforeAll(async () => {
    database = await createTestDatabase();
    store = createPostgresLog({ sql: database.sql, prefix: 'test_' });
  });
  afterAll(async () => {
    await store?.close();
    await database?.drop();
  });

  const newStream = () => `endpoint-${newId('end')}`;
  const run = (
    stream: string,
    command: EndpointCommand,
    through: EventStore = store,
    options: HandleOptions<EndpointState> = {},
  ) => handle(through, endpointDecider, stream, command, CAUSE, options);
  const pauses = (events: StoredEvent[]) =>
    events.filter(({ type }) => type === 'endpoint.paused').length;

  it('appends the decided events, and returns their position', async () => {
    const stream = newStream();
    const { state, events, revision, position } = await run(stream, CONFIGURE);
    expect(state).toMatchObject({ status: 'configured', paused: false });
    expect(revision).toBe(0);
    const [stored] = await store.read(stream);
    expect(stored).toEqual({ ...events[0], stream, revision: 0, position });
    expect(stored).toMatchObject({
      id: expect.stringMatching(/^evt_[0-9A-Z]{26}$/),
      type: 'endpoint.configured',
      schema_version: 1,
      metadata: {
        actor: 'cli:ann',
        account_id: null,
        correlation_id: 'req_1',
        causation_id: 'evt_0',
        prev_hash: null,
      },
    });
  });

  it('appends nothing if no event follows', async () => {
    const stream = newStream();
    const { position } = await run(stream, CONFIGURE);
    expect(await run(stream, { type: 'resume' })).toMatchObject({
      events: [],
      revision: 0,
      position,
    });
  });

  it("throws the decider's error, and writes nothing", async () => {
    const stream = newStream();
    await expect(run(stream, { type: 'pause' })).rejects.toMatchObject({ code: 'not_found' });
    expect(await store.read(stream)).toEqual([]);
  });

  it('chains every event to the one before it', async () => {
    const stream = newStream();
    await run(stream, CONFIGURE);
    await run(stream, {
      type: 'update',
      definition: {
        ...endpointConfigured(),
        settings: sftpSettings({ port: 2222, username: 'ä\u{1f600}\n"' }),
      },
      credentials: { credentials_record: 'vlt_2', sign_in: 'password' },
    });
    for (const type of ['pause', 'resume', 'remove'] as const) await run(stream, { type });
    const events = await store.read(stream);
    expect(events.map(({ revision }) => revision)).toEqual([0, 1, 2, 3, 4, 5]);
    let previous: StoredEvent | null = null;
    for (const event of events) {
      expect(event.metadata.prev_hash).toBe(previous && hashOf(previous));
      if (previous)
        expect(
          event.id > previous.id && event.metadata.occurred_at >= previous.metadata.occurred_at,
        ).toBe(true);
      previous = event;
    }
  });

  /**
   * Returns a store in which another writer appends between a read and the next append, the given
   * number of times.
   */
  function contended(times: number) {
    let reads = 0;
    const through: EventStore = {
      ...store,
      async read(stream) {
        const seen = await store.read(stream);
        if (reads++ < times)
          await run(stream, { type: seen.length % 2 === 1 ? 'pause' : 'resume' });
        return seen;
      },
    };
    return { through, reads: () => reads };
  }

  it('decides again after another writer was first', async () => {
    const stream = newStream();
    await run(stream, CONFIGURE);
    const { through, reads } = contended(3);
    const { state, revision } = await run(stream, { type: 'remove' }, through);
    expect({ status: state.status, revision, reads: reads() }).toEqual({
      status: 'removed',
      revision: 4,
      reads: 4,
    });
  });

  it('gives up after ten attempts', async () => {
    const stream = newStream();
    await run(stream, CONFIGURE);
    const { through, reads } = contended(Number.POSITIVE_INFINITY);
    await expect(run(stream, { type: 'remove' }, through)).rejects.toMatchObject({
      code: 'unavailable',
    });
    expect(reads()).toBe(10);
    expect((await store.read(stream)).map(({ type }) => type)).not.toContain('endpoint.removed');
  });

  it('lets one of many callers do what can be done once', async () => {
    const stream = newStream();
    await run(stream, CONFIGURE);
    const handled = await Promise.all(
      Array.from({ length: 20 }, () => run(stream, { type: 'pause' })),
    );
    expect(handled.filter(({ events }) => events.length > 0)).toHaveLength(1);
    expect(pauses(await store.read(stream))).toBe(1);
  });

  it('reads a stream that should be new after the append finds it written to', async () => {
    const stream = newStream();
    const first = await run(stream, CONFIGURE, store, {
      known: untouched(endpointDecider.initialState),
    });
    expect(
      await run(stream, CONFIGURE, store, { known: untouched(endpointDecider.initialState) }),
    ).toMatchObject({
      events: [],
      revision: 0,
      position: first.position,
    });
  });

  it('reads only what came since, if the caller knows the stream', async () => {
    const stream = newStream();
    const known = await run(stream, CONFIGURE);
    await run(stream, { type: 'pause' });
    const read = vi.fn(store.read);
    const removed = await run(stream, { type: 'remove' }, { ...store, read }, { known });
    expect(removed).toMatchObject({ revision: 2, state: { status: 'removed' } });
    expect(read.mock.calls).toEqual([[stream, 1]]);
    const events = await store.read(stream);
    expect(events[2]?.metadata.prev_hash).toBe(hashOf(events[1] as StoredEvent));
  });

  it('reads all of a stream that was removed since', async () => {
    const stream = newStream();
    const known = await run(stream, CONFIGURE);
    await run(stream, { type: 'pause' });
    const removed: EventStore = { ...store, read: async () => [] };
    await expect(run(stream, { type: 'pause' }, removed, { known })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  describe('a command of a request that is repeated', () => {
    const keyed = (correlationId: string): Cause => ({ ...CAUSE, correlationId, keyed: true });
    const pause = (stream: string, cause: Cause, options: HandleOptions<EndpointState> = {}) =>
      handle(store, endpointDecider, stream, { type: 'pause' }, cause, {
        unless: ofRequest(cause),
        ...options,
      });

    it('appends nothing if the stream has an event of that request', async () => {
      const stream = newStream();
      await run(stream, CONFIGURE);
      expect(await pause(stream, keyed('req_2'))).toMatchObject({ revision: 1 });
      await run(stream, { type: 'resume' });
      const again = await pause(stream, keyed('req_2'));
      expect(again).toMatchObject({ events: [], revision: 2, state: { paused: false } });
      expect(await pause(stream, keyed('req_3'))).toMatchObject({ revision: 3 });
    });

    it('finds the event among those of a known state, or after it', async () => {
      const stream = newStream();
      const known = await run(stream, CONFIGURE);
      await pause(stream, keyed('req_2'));
      const resumed = await run(stream, { type: 'resume' });
      const stored = await store.read(stream, 1);
      for (const options of [{ known }, { known: { ...resumed, stored } }])
        expect(await pause(stream, keyed('req_2'), options)).toMatchObject({ events: [] });
    });

    it('appends again if nothing says that the request is repeated', async () => {
      const stream = newStream();
      await run(stream, CONFIGURE);
      for (const type of ['pause', 'resume'] as const) await run(stream, { type });
      expect(await pause(stream, CAUSE)).toMatchObject({ revision: 3 });
    });
  });

  it('continues from a known state without a read, unless it is too old', async () => {
    const stream = newStream();
    const known = await run(stream, CONFIGURE);
    const unread: EventStore = {
      ...store,
      read: () => Promise.reject(new Error('nothing was to be read')),
    };
    await run(stream, { type: 'pause' }, unread, { known });
    await run(stream, { type: 'remove' }, store, { known });
    const events = await store.read(stream);
    expect(events.map(({ type }) => type)).toEqual([
      'endpoint.configured',
      'endpoint.paused',
      'endpoint.removed',
    ]);
    expect(events.map(({ metadata }) => metadata.prev_hash)).toEqual([
      null,
      ...events.slice(0, -1).map(hashOf),
    ]);
  });

  it.each(['known', 'remembered'])(
    'decides again if a failover gave the revision that is %s to another event',
    async (how) => {
      const stream = newStream();
      const { position } = await run(stream, CONFIGURE);
      const known = await run(stream, { type: 'pause' }, store, { remember: how === 'remembered' });
      await loseEventsAfter(database.sql, position as bigint);
      // Another process, which remembers nothing.
      await run(stream, { type: 'remove' }, { ...store });
      await expect(
        run(stream, { type: 'resume' }, store, how === 'known' ? { known } : {}),
      ).rejects.toMatchObject({ code: 'not_found' });
      const events = await store.read(stream);
      expect(events.map(({ type }) => type)).toEqual(['endpoint.configured', 'endpoint.removed']);
    },
  );

  it('appends nothing to a stream whose last event the store does not return', async () => {
    const stream = newStream();
    const known = { ...(await run(stream, CONFIGURE)), last: null };
    const pausing = run(stream, { type: 'pause' }, store, { known });
    await expect(pausing).rejects.toThrow(EventStoreUnavailable);
    expect(await store.read(stream)).toHaveLength(1);
  });

  describe.each([
    ['knows whether an append is new', (isNew: boolean | null) => isNew],
    ['cannot tell', () => null],
  ])('with an engine that %s', (_, tell) => {
    const engine = (): EventStore => ({
      ...store,
      append: async (...given) => {
        const result = await store.append(...given);
        return { ...result, isNew: tell(result.isNew) };
      },
    });

    it.each(['remembered', 'known'])(
      'continues what another process appended under the same ids, if it is %s',
      async (how) => {
        const stream = newStream();
        const reserved = { eventId: newId('evt'), now: new Date().toISOString() };
        const known = untouched(endpointDecider.initialState);
        const [one, other] = [engine(), engine()];
        const manager = { ...CAUSE, actor: 'system:manager' };
        await handle(one, endpointDecider, stream, CONFIGURE, manager, { reserved, known });
        const options = { reserved, known, remember: how === 'remembered' };
        const repeated = await run(stream, CONFIGURE, other, options);
        expect(repeated.events).toEqual(await store.read(stream));
        await run(stream, { type: 'pause' }, other, how === 'known' ? { known: repeated } : {});
        const events = await store.read(stream);
        expect(events.map(({ metadata }) => metadata.actor)).toEqual([manager.actor, CAUSE.actor]);
        expect(events[1]?.metadata.prev_hash).toBe(hashOf(events[0] as StoredEvent));
      },
    );
  });

  it('does not read back a creation, also with an engine that cannot tell whether it is new', async () => {
    const stream = newStream();
    const reads = vi.fn(store.read);
    const through: EventStore = {
      ...store,
      read: reads,
      append: async (...given) => ({ ...(await store.append(...given)), isNew: null }),
    };
    const reserved = { now: new Date().toISOString() };
    const options = { reserved, known: untouched(endpointDecider.initialState) };
    const created = await run(stream, CONFIGURE, through, options);
    expect(reads).not.toHaveBeenCalled();
    expect(await store.read(stream)).toMatchObject(created.events);

    const manager = { ...CAUSE, actor: 'system:manager' };
    const again = await handle(through, endpointDecider, stream, CONFIGURE, manager, options);
    expect(again).toMatchObject({ state: created.state, events: [], last: created.last });
    expect(await store.read(stream)).toMatchObject([{ metadata: { actor: CAUSE.actor } }]);
  });

  describe('a remembered stream', () => {
    /** A store of its own, so with a memory of its own, that counts its reads. */
    function counted() {
      const reads = vi.fn(store.read);
      return { through: { ...store, read: reads } as EventStore, reads };
    }

    it('is not read for the next command, and for the one after that', async () => {
      const stream = newStream();
      const { through, reads } = counted();
      const known = untouched(endpointDecider.initialState);
      await run(stream, CONFIGURE, through, { known, remember: true });
      expect(await run(stream, { type: 'pause' }, through)).toMatchObject({ revision: 1 });
      expect(reads).not.toHaveBeenCalled();
      expect(await run(stream, { type: 'resume' }, through)).toMatchObject({ revision: 2 });
      expect(reads).toHaveBeenCalledTimes(1);
      expect((await store.read(stream)).map(({ metadata }) => metadata.prev_hash)).toEqual([
        null,
        ...(await store.read(stream)).slice(0, -1).map(hashOf),
      ]);
    });

    it('is shared with the store whose append was replaced', async () => {
      const stream = newStream();
      const { through, reads } = counted();
      const known = untouched(endpointDecider.initialState);
      const replaced = withAppend(through, store.append);
      await run(stream, CONFIGURE, replaced, { known, remember: true });
      expect(await run(stream, { type: 'pause' }, through)).toMatchObject({ revision: 1 });
      expect(reads).not.toHaveBeenCalled();
    });

    it('is read if another writer appended to it since', async () => {
      const stream = newStream();
      const { through } = counted();
      await run(stream, CONFIGURE, through, { remember: true });
      await run(stream, { type: 'pause' });
      expect(await run(stream, { type: 'remove' }, through)).toMatchObject({ revision: 2 });
    });

    it('is read before a command counts as done', async () => {
      const stream = newStream();
      const { through } = counted();
      await run(stream, CONFIGURE, through, { remember: true });
      await run(stream, { type: 'pause' });
      expect(await run(stream, { type: 'resume' }, through)).toMatchObject({ revision: 2 });
    });

    it('is read before a command is rejected', async () => {
      const stream = newStream();
      const { through } = counted();
      rememberStream(through, stream, untouched(endpointDecider.initialState));
      await run(stream, CONFIGURE);
      expect(await run(stream, { type: 'pause' }, through)).toMatchObject({ revision: 1 });
      rememberStream(through, stream, untouched(endpointDecider.initialState));
      await run(stream, { type: 'remove' });
      await expect(run(stream, { type: 'pause' }, through)).rejects.toMatchObject({
        code: 'not_found',
      });
    });

    it('is forgotten after 2,000 others', () => {
      const { through } = counted();
      const known = untouched(endpointDecider.initialState);
      for (let n = 0; n <= 2_000; n++) rememberStream(through, `endpoint-${n}`, known);
      expect(takeRemembered(through, 'endpoint-0')).toBeNull();
      expect(takeRemembered(through, 'endpoint-1')).toBe(known);
      expect(takeRemembered(through, 'endpoint-1')).toBeNull();
      expect(takeRemembered(store, 'endpoint-2')).toBeNull();
    });
  });

  it('treats a repeated append with its reserved ids as the same append', async () => {
    const stream = newStream();
    const reserved = { eventId: newId('evt'), now: '2026-03-01T10:00:00.000Z' };
    const [first, second] = await Promise.all(
      [0, 1].map(() =>
        run(stream, CONFIGURE, store, { known: untouched(endpointDecider.initialState), reserved }),
      ),
    );
    expect(second!.position).toBe(first!.position);
    expect(await store.read(stream)).toMatchObject([
      { id: reserved.eventId, metadata: { occurred_at: reserved.now } },
    ]);
  });
});

function hashOf({ id, type, schema_version, data, metadata }: StoredEvent): string {
  return createHash('sha256')
    .update(canonicalize({ id, type, schema_version, data, metadata })!)
    .digest('hex');
}
