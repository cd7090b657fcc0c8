import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { createLocks, type Locks } from '../../../src/adapters/postgres/locks.ts';
import { createProxiedDatabase } from '../../support/postgres/proxied.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const LOCKS = resolve(import.meta.dirname, '../../../src/adapters/postgres/locks.ts');
const never = new AbortController().signal;

describeWithPostgres('locks', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  const open: Locks[] = [];
  afterEach(() => Promise.all(open.splice(0).map((locks) => locks.close())));
  function openLocks(): Locks {
    const locks = createLocks(database.url, { pollMs: 20 });
    open.push(locks);
    return locks;
  }

  /** Ends the connections of all locks, as a server restart does. */
  const cutConnections = () =>
    database.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'waybill locks' and datname = current_database()`;

  it('grants a lock to one process at a time', async () => {
    const [one, other] = [openLocks(), openLocks()];
    const held = await one.acquire('a', never);
    expect(await other.tryAcquire('a')).toBeNull();
    expect(await other.tryAcquire('b')).not.toBeNull();
    await held.release();
    expect(await other.tryAcquire('a')).not.toBeNull();
  });

  it('tells every process whether a lock is held', async () => {
    const [one, other] = [openLocks(), openLocks()];
    const names = ['held 1', 'held 2', 'held 3', 'held 4'];
    const held = await Promise.all(names.map((name) => one.acquire(name, never)));
    for (const name of names)
      expect([await one.isHeld(name), await other.isHeld(name)]).toEqual([true, true]);
    await Promise.all(held.map((each) => each.release()));
    for (const name of names) expect(await other.isHeld(name)).toBe(false);
  });

  it('are not reentrant', async () => {
    const locks = openLocks();
    const attempts = await Promise.all([
      locks.tryAcquire('a'),
      locks.tryAcquire('a'),
      locks.tryAcquire('a'),
    ]);
    expect(attempts.filter((held) => held !== null)).toHaveLength(1);
    expect(await locks.tryAcquire('a')).toBeNull();
  });

  it('do not release a lock that another process has acquired meanwhile', async () => {
    const locks = openLocks();
    const first = await locks.acquire('a', never);
    await Promise.all([first.release(), first.release()]);
    const second = await locks.acquire('a', never);
    await first.release();
    expect(await openLocks().tryAcquire('a')).toBeNull();
    expect(second.signal.aborted).toBe(false);
  });

  it('give every waiter its turn, one at a time', async () => {
    const processes = [openLocks(), openLocks()];
    let inside = 0;
    let most = 0;
    const turn = async (locks: Locks) => {
      const held = await locks.acquire('a', never);
      most = Math.max(most, ++inside);
      await database.sql`select 1`;
      inside--;
      await held.release();
    };
    await Promise.all(processes.flatMap((locks) => [turn(locks), turn(locks), turn(locks)]));
    expect(most).toBe(1);
  });

  it('wait on one connection, for any number of waiters', async () => {
    const holder = openLocks();
    const names = Array.from({ length: 10 }, (_, index) => `many-${index}`);
    const held = await Promise.all(names.map((name) => holder.acquire(name, never)));
    const waiting = openLocks();
    const waiters = names.map((name) => waiting.acquire(name, never));
    await waiting.tryAcquire('another');
    const [row] = await database.sql`
      select count(*)::int as count from pg_stat_activity
       where application_name = 'waybill locks' and datname = current_database()`;
    expect(row).toEqual({ count: 2 });
    await Promise.all(held.map((lock) => lock.release()));
    expect(await Promise.all(waiters)).toHaveLength(10);
  });

  it('stop waiting when the signal aborts', async () => {
    const [one, other] = [openLocks(), openLocks()];
    const held = await one.acquire('a', never);
    const controller = new AbortController();
    const waiting = other.acquire('a', controller.signal);
    controller.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await held.release();
    expect(await one.tryAcquire('a')).not.toBeNull();
  });

  it('notify the holder of a lost connection, and free the lock', async () => {
    const [one, other] = [openLocks(), openLocks()];
    const held = await one.acquire('a', never);
    const waiting = other.acquire('a', never);
    const lost = once(held.signal, 'abort');
    await cutConnections();
    await lost;
    expect(held.signal.aborted).toBe(true);
    const next = await waiting;
    await held.release();
    expect(await one.tryAcquire('a')).toBeNull();
    expect(next.signal.aborted).toBe(false);
  });

  it('never report a free lock as held when its connection is lost meanwhile', async () => {
    const locks = openLocks();
    await locks.tryAcquire('first');
    for (let round = 0; round < 40; round++) {
      const cutting = cutConnections();
      const outcomes = await Promise.allSettled(
        Array.from({ length: 20 }, (_, n) => locks.tryAcquire(`${round}:${n}`)),
      );
      await cutting;
      expect(outcomes).not.toContainEqual({ status: 'fulfilled', value: null });
    }
  });

  it('work again after a lost connection', async () => {
    const locks = openLocks();
    const held = await locks.acquire('a', never);
    const lost = once(held.signal, 'abort');
    await cutConnections();
    await lost;
    const again = await locks.acquire('a', never);
    expect(await openLocks().tryAcquire('a')).toBeNull();
    await again.release();
  });

  it('leave no lock behind that was granted after a failed reconnection', async () => {
    const { url, proxy, drop } = await createProxiedDatabase();
    const [locks, other] = [createLocks(url, { pollMs: 20 }), createLocks(url)];
    try {
      const cut = proxy.cutWhen(() => true, 'up');
      const shared = locks.acquireShared('shared', never);
      // It waits behind the first request, whose connection is reset.
      const behind = locks.tryAcquire('a').catch(() => null);
      await cut;
      await (await behind)?.release();
      await shared;
      expect(await other.tryAcquire('a')).not.toBeNull();
    } finally {
      await Promise.all([locks.close(), other.close()]);
      await drop();
    }
  });

  it('leave no lock behind that was requested before a lost connection', async () => {
    const proxied = await createProxiedDatabase();
    const locks = createLocks(proxied.url, { pollMs: 20 });
    try {
      await locks.acquire('before', never);
      proxied.proxy.stall(true);
      const first = locks.tryAcquire('first');
      await setImmediate();
      // It waits until the first one has its answer.
      const second = locks.tryAcquire('second');
      const requests = Promise.allSettled([first, second]);
      proxied.proxy.cut();
      proxied.proxy.stall(false);
      for (const { status } of await requests) expect(status).toBe('rejected');
      // Keeps the next session busy, and with it all that it holds.
      await locks.acquire('after', never);
      for (const name of ['first', 'second'])
        expect([name, await locks.isHeld(name)]).toEqual([name, false]);
    } finally {
      await locks.close();
      await proxied.drop();
    }
  });

  it('pass to the next process when the holder is killed', async () => {
    const script = `
      import { createLocks } from ${JSON.stringify(LOCKS)};
      await createLocks(process.env.LOCKS_URL).acquire('a', new AbortController().signal);
      console.log('held');
      setInterval(() => {}, 1_000);`;
    const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '-e', script], {
      env: { ...process.env, LOCKS_URL: database.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      await once(child.stdout!, 'data');
      const locks = openLocks();
      expect(await locks.tryAcquire('a')).toBeNull();
      child.kill('SIGKILL');
      const held = await locks.acquire('a', never);
      expect(held.signal.aborted).toBe(false);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('are in doubt after a suspension of the machine, until Postgres answers', async () => {
    const locks = openLocks();
    const held = await locks.acquire('a', never);
    expect(held.isSure()).toBe(true);
    // As after a suspension: only the wall clock goes on.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 60_000 });
    try {
      expect(held.isSure()).toBe(false);
      await locks.tryAcquire('b');
      expect(held.isSure()).toBe(true);
      vi.setSystemTime(Date.now() - 3_600_000);
      expect(held.isSure()).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  it('release everything when they are closed', async () => {
    const locks = openLocks();
    const held = await locks.acquire('a', never);
    const other = openLocks();
    const blocked = await other.acquire('b', never);
    const waiting = locks.acquire('b', never);
    const refused = expect(waiting).rejects.toThrow('closed');
    await locks.close();
    await refused;
    expect(held.signal.aborted).toBe(true);
    await expect(locks.tryAcquire('c')).rejects.toThrow('closed');
    expect(blocked.signal.aborted).toBe(false);
    await other.acquire('a', never);
  });
});
