import { randomBytes } from 'node:crypto';
import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import { holdRows, type RowLock } from '../support/postgres/row-locks.ts';
import { descendants } from '../support/programs/process-tree.ts';
import { LONG } from '../support/run/long.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import {
  type RunningRoles,
  type SpawnedService,
  spawnMover,
  startDispatch,
} from '../support/service/roles.ts';
import {
  describeTransfers,
  filesBelow,
  savedChunks,
  sha256Of,
  storyOf,
  until,
} from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
const CHUNK = 8 * MiB;
/** The bytes of a few connections, listings and requests. A repeated chunk is far larger. */
const OVERHEAD = MiB;
const TAKEN_OVER = [
  'created',
  'queued: admitted',
  'in_progress',
  'queued: mover_lost',
  'in_progress',
  'completed',
];
const COMPLETED_AT_FIRST = ['created', 'queued: admitted', 'in_progress', 'completed'];

await describeTransfers('a mover killed with -9', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let sourceProxy: TcpProxy;
  let proxy: TcpProxy;
  let dispatch: RunningRoles;
  /** The mover that is killed next: it took over from the previous one. */
  let victim: SpawnedService;
  const outcomes: string[][] = [];

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation(),
      startSftpServer(),
      startSftpServer(),
    ]);
    dispatch = startDispatch(installation);
    [sourceProxy, proxy] = await Promise.all([startTcpProxy(alpha), startTcpProxy(beta)]);
    await configureSftp(installation, 'alpha', { ...alpha, port: sourceProxy.port });
    await configureSftp(installation, 'beta', { ...beta, port: proxy.port });
    await configureSftp(
      installation,
      'careful',
      { ...beta, port: proxy.port },
      { overwrite: false },
    );
    victim = await startMover();
  });
  afterAll(async () => {
    await victim?.kill();
    await dispatch?.stop();
    await Promise.all([sourceProxy?.close(), proxy?.close()]);
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
    if (process.env.TEST_PRINT_TABLES)
      console.log(outcomes.map((cells) => `| ${cells.join(' | ')} |`).join('\n'));
  });

  const startMover = () => spawnMover(installation.environment);

  interface Crash {
    /** Name of the source, and of the folder at the destination. */
    name: string;
    size: number;
    endpoint?: 'beta' | 'careful';
    /** Submits while the destination is stalled: nothing reaches it before `reach`. */
    stalled?: boolean;
    /** Brings the move to the crash point. */
    reach(id: string): Promise<void>;
    /** Releases the move once its mover is dead. */
    letGo?(id: string): Promise<unknown>;
    /** Runs between the crash and the take-over. */
    meanwhile?(): void | Promise<void>;
    /** True if the server had answered every request of the dead mover. */
    answered?: boolean;
  }

  interface Recovery {
    id: string;
    /** Bytes that the successor sent to the destination, read from the source, and read back. */
    sent: number;
    read: number;
    readBack: number;
    seconds: number;
  }

  /**
   * Kills the mover at the point, and lets its lease expire beside a successor. Returns when the
   * transfer has ended.
   */
  async function crash({
    name,
    size,
    endpoint = 'beta',
    stalled = false,
    answered = false,
    ...point
  }: Crash): Promise<Recovery> {
    writeFileSync(join(alpha.root, name), randomBytes(size));
    proxy.throttle(12 * MiB);
    proxy.stall(stalled);
    const id = await submit(installation, `sftp://alpha/${name}`, `sftp://${endpoint}/${name}/`);
    await untilStatus(installation, id, 'in_progress');
    const successor = startMover();
    await point.reach(id);
    const next = await successor;
    await victim.kill();
    await point.letGo?.(id);
    proxy.stall(false);
    proxy.throttle(Number.POSITIVE_INFINITY);
    await point.meanwhile?.();
    // The successor is new and has no connection yet: these were the dead mover's.
    await until(
      'its connections are gone',
      () => proxy.connections + sourceProxy.connections === 0,
    );
    victim = next;

    const before = {
      sent: proxy.forwarded.up,
      read: sourceProxy.forwarded.down,
      readBack: proxy.forwarded.down,
    };
    const began = performance.now();
    await installation.sql`
      update work.transfer_jobs set lease_until = now() - interval '1 second'
       where transfer_id = ${id}`;
    await untilStatus(installation, id, ['completed', 'failed'], 60);
    const seconds = (performance.now() - began) / 1_000;
    await until(
      'its job is gone',
      async () => (await installation.sql`select from work.transfer_jobs`).length === 0,
    );
    await until(
      'the clean-up',
      async () => (await installation.sql`select from work.cleanups`).length === 0,
    );
    // A server may carry out a request of the dead mover later.
    const looks = await installation.sql`select from work.late_looks where transfer_id = ${id}`;
    expect(looks).toHaveLength(answered ? 0 : 1);
    return {
      id,
      sent: proxy.forwarded.up - before.sent,
      read: sourceProxy.forwarded.down - before.read,
      readBack: proxy.forwarded.down - before.readBack,
      seconds,
    };
  }

  async function expectArrived(
    fault: string,
    { name, sha256, readBack }: { name: string; sha256: string; readBack: boolean },
    { id, ...figures }: Recovery,
    story = TAKEN_OVER,
  ) {
    const done = await untilStatus(installation, id, ['completed', 'failed']);
    const verification = { size: true, read_back: readBack, atomic_replace: !readBack };
    expect(done).toMatchObject({ status: 'completed', checksum_sha256: sha256, verification });
    expect(await storyOf(installation, id)).toEqual(story);
    expect(await sha256Of(join(beta.root, name, name))).toBe(sha256);
    expect(await filesBelow(join(beta.root, name))).toEqual([name]);
    outcomes.push([
      fault,
      'completed once, whole',
      readBack ? 'read back' : 'as it passed',
      `${figures.seconds.toFixed(1)} s`,
    ]);
  }

  const sourceSha256 = (name: string) => sha256Of(join(alpha.root, name));
  const resumeRecord = async (id: string) =>
    (
      await installation.sql<{ resume_record: { committing: object | null } | null }[]>`
      select resume_record from work.transfer_jobs where transfer_id = ${id}`
    )[0]?.resume_record;
  const sending = (bytes: number) => {
    const before = proxy.forwarded.up;
    return until(`${bytes} bytes are sent`, () => proxy.forwarded.up - before > bytes);
  };
  const lockRow = (id: string) =>
    holdRows(
      installation.sql,
      (tx) => tx`select from work.transfer_jobs where transfer_id = ${id} for update`,
    );
  const lockHead = () => holdRows(installation.sql, (tx) => tx`select from log.head for update`);

  /** The part has all bytes, and the record cannot be saved. */
  async function deliverAll(id: string, name: string, size: number): Promise<RowLock> {
    await sending(MiB);
    proxy.stall(true);
    const row = await lockRow(id);
    proxy.stall(false);
    proxy.throttle(Number.POSITIVE_INFINITY);
    const sha256 = await sourceSha256(name);
    const folder = join(beta.root, name);
    await until('all of it is delivered', async () => {
      const [part] = await filesBelow(folder);
      if (part === undefined) return false;
      const file = join(folder, part);
      return statSync(file).size === size && (await sha256Of(file)) === sha256;
    });
    await until(
      'its mover waits to save the progress',
      async () => (await row.waiting('set resume_record')) > 0,
    );
    return row;
  }

  /** The destination has its name, and the log cannot be written. */
  async function publish(name: string): Promise<RowLock> {
    const head = await lockHead();
    proxy.stall(false);
    proxy.throttle(Number.POSITIVE_INFINITY);
    await until('the file has its name', () => existsSync(join(beta.root, name, name)));
    await until('its mover waits to append', async () => (await head.waiting('log.append')) > 0);
    return head;
  }

  test('before it opened the destination', LONG, async () => {
    const name = 'before-open';
    const reach = () =>
      until('it has connected', () => proxy.connections > 0).then(() => undefined);
    const recovery = await crash({ name, size: 12 * MiB, stalled: true, reach });
    await expectArrived(
      'before the destination was opened',
      { name, sha256: await sourceSha256(name), readBack: false },
      recovery,
    );
  });

  test('in the middle of the data: only the bytes in flight are sent again', LONG, async () => {
    const name = 'mid-data';
    // A larger one could use several connections.
    const size = 56 * MiB;
    let saved = 0;
    const recovery = await crash({
      name,
      size,
      reach: async (id) => {
        // Four chunks are in flight at once: soon they arrive, and the rest takes its time.
        await sending(3 * CHUNK);
        proxy.throttle(2 * MiB);
        await until('a chunk is saved', async () => (await savedChunks(installation, id)) > 0, 60);
        proxy.stall(true);
      },
      letGo: async (id) => {
        saved = await savedChunks(installation, id);
      },
    });
    expect(saved).toBeGreaterThan(0);
    expect(recovery.sent).toBeLessThan(size - saved * CHUNK + OVERHEAD);
    expect(recovery.read).toBeLessThan(size + OVERHEAD);
    await expectArrived(
      'in the middle of the data',
      { name, sha256: await sourceSha256(name), readBack: false },
      recovery,
    );
  });

  test('after every byte was delivered and before the progress was saved', LONG, async () => {
    const name = 'before-committing';
    const size = 12 * MiB;
    let row: RowLock;
    const recovery = await crash({
      name,
      size,
      reach: async (id) => {
        row = await deliverAll(id, name, size);
      },
      letGo: () => row.release({ ending: 'lease_until = now() +' }),
    });
    expect(recovery.read).toBeLessThan(size + OVERHEAD);
    await expectArrived(
      'after the last byte, before `committing` was saved',
      { name, sha256: await sourceSha256(name), readBack: false },
      recovery,
    );
  });

  for (const endpoint of ['beta', 'careful'] as const) {
    const title = `after it announced the rename and before the rename: ${endpoint}`;
    test(title, LONG, async () => {
      const name = `before-rename-${endpoint}`;
      let sessions: number[] = [];
      const size = 12 * MiB;
      const recovery = await crash({
        name,
        size,
        endpoint,
        reach: async (id) => {
          const row = await deliverAll(id, name, size);
          sessions = descendants(beta.pid);
          for (const pid of sessions) process.kill(pid, 'SIGSTOP');
          await row.release();
          await until('it is about to rename', async () => (await resumeRecord(id))?.committing);
        },
        letGo: async () => {
          for (const pid of sessions) process.kill(pid, 'SIGCONT');
        },
      });
      expect(existsSync(join(beta.root, name, name))).toBe(true);
      expect(recovery.sent).toBeLessThan(OVERHEAD);
      expect(recovery.read).toBeLessThan(OVERHEAD);
      const fault =
        `after \`committing\` was saved, before the ` +
        `rename${endpoint === 'careful' ? ', `overwrite: false`' : ''}`;
      await expectArrived(
        fault,
        { name, sha256: await sourceSha256(name), readBack: false },
        recovery,
      );
    });
  }

  for (const [endpoint, size, options] of [
    ['beta', 12 * MiB, LONG],
    ['careful', 12 * MiB, {}],
    ['beta', 1, LONG],
    ['careful', 1, LONG],
  ] as const) {
    const title = `after the rename and before the append: ${endpoint}, ${size} bytes`;
    test(title, options, async () => {
      const name = `before-append-${endpoint}-${size}`;
      let head: RowLock;
      const recovery = await crash({
        name,
        size,
        endpoint,
        stalled: true,
        reach: async () => {
          head = await publish(name);
        },
        letGo: () => head.release({ ending: 'log.append' }),
      });
      expect(recovery.sent).toBeLessThan(OVERHEAD);
      expect(recovery.read).toBe(0);
      expect(recovery.readBack).toBeGreaterThanOrEqual(size);
      const fault =
        'after the rename, before the ' +
        `append${endpoint === 'careful' ? ', `overwrite: false`' : ''} (${size} bytes)`;
      await expectArrived(
        fault,
        { name, sha256: await sourceSha256(name), readBack: true },
        recovery,
      );
    });
  }

  test('after the rename, and its source is removed before the take-over', LONG, async () => {
    const name = 'source-gone';
    let head: RowLock;
    let sha256 = '';
    const recovery = await crash({
      name,
      size: 12 * MiB,
      stalled: true,
      reach: async () => {
        sha256 = await sourceSha256(name);
        head = await publish(name);
      },
      letGo: () => head.release({ ending: 'log.append' }),
      meanwhile: () => rmSync(join(alpha.root, name)),
    });
    await expectArrived(
      'after the rename, source removed since',
      { name, sha256, readBack: true },
      recovery,
    );
  });

  for (const [fault, appended, options] of [
    ['after the append and before its job was updated', true, {}],
    ['during its append, which arrived', false, LONG],
  ] as const) {
    test(fault, options, async () => {
      const name = appended ? 'before-row' : 'append-arrives';
      let locks: RowLock[] = [];
      const recovery = await crash({
        name,
        size: 12 * MiB,
        stalled: true,
        answered: true,
        reach: async (id) => {
          const head = await publish(name);
          locks = [head];
          if (!appended) return;
          locks = [await lockRow(id)];
          await head.release();
          await untilStatus(installation, id, 'completed');
        },
        letGo: () => Promise.all(locks.map((lock) => lock.release())),
      });
      expect(recovery.sent + recovery.read).toBeLessThan(OVERHEAD);
      await expectArrived(
        fault,
        { name, sha256: await sourceSha256(name), readBack: false },
        recovery,
        COMPLETED_AT_FIRST,
      );
    });
  }
});
