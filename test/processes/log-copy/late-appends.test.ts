import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import { type EventStore, EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../src/adapters/event-store/postgres/log.ts';
import { createLocks } from '../../../src/adapters/postgres/locks.ts';
import { parseConfig } from '../../../src/config.ts';
import { type Installation, openInstallation } from '../../../src/installation.ts';
import { copyLog } from '../../../src/processes/log-copy/copy-log.ts';
import { followCopy } from '../../../src/processes/log-copy/follow-copy.ts';
import { RUNNING_SERVICES } from '../../../src/processes/log-copy/running-services.ts';
import { startService } from '../../../src/service.ts';
import { event } from '../../adapters/event-store/events.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../../support/event-store/fake/server.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../../support/service/installation.ts';

const LONG_FROZEN_MS = 16_000;

describeWithPostgres('a process that goes on without its lock while the log moves', () => {
  let embedded: TestInstallation;
  let server: FakeEventStoreDb;
  beforeEach(async () => {
    embedded = await openTestInstallation();
    server = await startFakeEventStoreDb();
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    server?.close();
    await embedded?.close();
  });

  const openMoved = () =>
    openInstallation(
      parseConfig({ ...embedded.environment, EVENTSTORE_URL: server.url }),
      pino({ level: 'silent' }),
    );

  /** Moves the log. Calls `onCopied` when the copy is whole and nothing follows it yet. */
  async function move(
    from: Installation,
    copy: EventStore,
    onCopied: () => Promise<unknown> = async () => undefined,
    wait: () => Promise<unknown> = async () => undefined,
  ): Promise<void> {
    const run = async () => {
      const copied = await copyLog(from.store, copy, () => undefined);
      await onCopied();
      return copied;
    };
    try {
      await followCopy(from, copy, run, wait);
    } finally {
      await copy.close();
    }
  }

  const { streamPrefix: prefix } = parseConfig({});
  const intoEventStoreDb = () => createEventStoreDb({ url: server.url, prefix });
  const intoPostgres = () => createPostgresLog({ sql: embedded.sql, prefix, isCopy: true });
  const appendTo = ({ store }: Installation, stream: string) =>
    store.append(stream, 'no_stream', [event()]);

  it('appends nothing that the new log lacks, in both directions', async () => {
    const early = () => appendTo(embedded, 'any-1');
    await expect(move(embedded, intoEventStoreDb(), early)).rejects.toThrow(/appended to any-1/);
    await appendTo(embedded, 'any-2');
    await move(embedded, intoEventStoreDb());
    await expect(appendTo(embedded, 'any-3')).rejects.toThrow(EventStoreUnavailable);

    const moved = await openMoved();
    try {
      expect(await moved.store.read('any-1')).toHaveLength(1);
      expect(await moved.store.read('any-2')).toHaveLength(1);
      await appendTo(moved, 'any-3');
      const late = () => appendTo(moved, 'any-4');
      await expect(move(moved, intoPostgres(), late)).rejects.toThrow(/appended to any-4/);
      await expect(appendTo(embedded, 'any-5')).rejects.toThrow(/is closed/);
      const underWay = () => appendTo(moved, 'any-6');
      await expect(move(moved, intoPostgres(), undefined, underWay)).rejects.toThrow(/to any-6/);
      await move(moved, intoPostgres());
    } finally {
      await moved.close();
    }
    expect(await embedded.store.read('any-4')).toHaveLength(1);
    await appendTo(embedded, 'any-5');
  });

  it('goes on if the move is killed after it has closed the log', async () => {
    const { sql, store, environment, logger } = embedded;
    let isCopied = false;
    let waiting: Promise<unknown> | null = null;
    const subscribe: EventStore['subscribe'] = async function* (options) {
      if (isCopied) {
        waiting = appendTo(embedded, 'any-1');
        const killed = await sql`
          select pg_terminate_backend(pid) from pg_locks
           where relation = 'log.head'::regclass and granted and mode = 'RowExclusiveLock'`;
        expect(killed).toHaveLength(1);
      }
      yield* store.subscribe(options);
    };
    const moving = { ...embedded, store: { ...store, subscribe } };
    const onCopied = async () => {
      isCopied = true;
    };
    await expect(move(moving, intoEventStoreDb(), onCopied)).rejects.toThrow();
    await waiting;
    expect(await store.read('any-1')).toHaveLength(1);
    await (await openInstallation(parseConfig(environment), logger)).close();
    await move(embedded, intoEventStoreDb());
  });

  it('refuses to append to an EventStoreDB until it has its lock again', async () => {
    await move(embedded, intoEventStoreDb());
    const moved = await openMoved();
    // Looks often: the service takes the lock again as soon as it is connected again.
    const others = createLocks(embedded.environment.DATABASE_URL as string, { pollMs: 2 });
    try {
      const service = await startService(moved, ['webhooks']);
      await appendTo(moved, 'any-1');
      const mover = new AbortController();
      const taken = others.acquire(RUNNING_SERVICES, mover.signal);
      await expect
        .poll(async () => {
          await embedded.sql`
            select pg_terminate_backend(pid) from pg_locks
              join pg_stat_activity using (pid)
             where application_name = 'waybill locks' and mode = 'ShareLock'
               and datname = current_database()`;
          return Promise.race([taken.then(() => 'taken'), sleep(1_000, 'waits')]);
        })
        .toBe('taken');
      await expect(appendTo(moved, 'any-2')).rejects.toThrow(/lost its lock/);
      await (await taken).release();
      await expect
        .poll(() =>
          appendTo(moved, 'any-2').then(
            () => true,
            () => false,
          ),
        )
        .toBe(true);

      // It wakes up, and its connection has not told it yet.
      const now = performance.now.bind(performance);
      vi.spyOn(performance, 'now').mockImplementation(() => now() + LONG_FROZEN_MS);
      await expect(appendTo(moved, 'any-3')).rejects.toThrow(/lost its lock/);
      await service.stop();
    } finally {
      await others.close();
      await moved.close();
    }
  });
});
