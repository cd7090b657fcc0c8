import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, openSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { CAUSE, configureSftp, openTestInstallation, submit, type TestInstallation, untilStatus } from '../support/installation.ts';
import { type RunningRoles, startRoles } from '../support/roles.ts';
import { holdRows } from '../support/row-locks.ts';
import { type SftpServer, startSftpServer } from '../support/sftp-server.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { describeTransfers, filesBelow, historyOf, savedChunks, sha256Of, storyOf, until } from '../support/transfers.ts';

// They move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
const CHUNK = 8 * MiB;
/** Chunks of one file that may be on their way at once. */
const IN_FLIGHT = 6 * CHUNK;
const SIZE = 64 * MiB;
const OVERHEAD = 2 * MiB;
const AT_FIRST = ['created', 'queued: admitted', 'in_progress', 'completed'];
const AT_SECOND = ['created', 'queued: admitted', 'in_progress', 'queued: retry', 'in_progress', 'completed'];

await describeTransfers('a move that is interrupted', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let source: TcpProxy;
  let destination: TcpProxy;
  let roles: RunningRoles;
  let endpointId: string;

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation({ WAYBILL_TRANSFER_RETRY_DELAYS: '100ms,200ms,300ms' }),
      startSftpServer(),
      startSftpServer(),
    ]);
    [source, destination] = await Promise.all([startTcpProxy(alpha), startTcpProxy(beta)]);
    roles = await startRoles(installation);
    endpointId = await configureSftp(installation, 'alpha', { ...alpha, port: source.port });
    await configureSftp(installation, 'beta', { ...beta, port: destination.port });
    await configureSftp(installation, 'careful', { ...beta, port: destination.port }, { overwrite: false });
  });
  beforeEach(() => {
    for (const proxy of [source, destination]) proxy.throttle(Number.POSITIVE_INFINITY);
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([source?.close(), destination?.close()]);
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  function create(name: string, size: number): string {
    const file = join(alpha.root, name);
    writeFileSync(file, randomBytes(size));
    return file;
  }

  const submitted = (name: string, endpoint = 'beta') => submit(installation, `sftp://alpha/${name}`, `sftp://${endpoint}/${name}/`);

  async function expectArrived(id: string, name: string, story: string[]) {
    const done = await untilStatus(installation, id, ['completed', 'failed'], 60);
    const sha256 = await sha256Of(join(alpha.root, name));
    expect(done).toMatchObject({ status: 'completed', checksum_sha256: sha256 });
    expect(await sha256Of(join(beta.root, name, name))).toBe(sha256);
    expect(await storyOf(installation, id)).toEqual(story);
    await until('the clean-up', async () => (await installation.sql`select from work.cleanups`).length === 0);
    expect(await filesBelow(join(beta.root, name))).toEqual([name]);
    return done;
  }

  test.each([
    ['source', () => source.cutAfter(80 * MiB, 'down')],
    ['destination', () => destination.cutAfter(80 * MiB, 'up')],
    ['both', () => destination.cutAfter(80 * MiB, 'up')],
  ])('a connection that breaks late is made anew, and only what was in flight is moved again: %s', async (side, cutLater) => {
    const name = `cut-${side}`;
    const size = 112 * MiB;
    create(name, size);
    const before = { read: source.forwarded.down, sent: destination.forwarded.up };
    cutLater();
    const id = await submitted(name);
    if (side === 'both') {
      await until('it is cut', () => destination.forwarded.up - before.sent >= 80 * MiB);
      source.cut();
    }
    await expectArrived(id, name, AT_FIRST);
    expect(source.forwarded.down - before.read).toBeLessThan(size + IN_FLIGHT + OVERHEAD);
    expect(destination.forwarded.up - before.sent).toBeLessThan(size + IN_FLIGHT + OVERHEAD);
  });

  test('one that breaks three times is made anew three times', async () => {
    const name = 'cut-thrice';
    create(name, 48 * MiB);
    for (const proxy of [source, destination]) proxy.throttle(32 * MiB);
    const id = await submitted(name);
    for (const [proxy, direction] of [
      [source, 'down'],
      [destination, 'up'],
      [source, 'down'],
    ] as const) {
      const before = proxy.forwarded[direction];
      await until('it moves', () => proxy.forwarded[direction] - before > 4 * MiB);
      proxy.cut();
    }
    await expectArrived(id, name, AT_FIRST);
  });

  test.each(['beta', 'careful'])('a rename whose answer is lost is found to be done: %s', async (endpoint) => {
    const name = `answer-lost-${endpoint}`;
    create(name, 12 * MiB);
    destination.throttle(12 * MiB);
    const id = await submitted(name, endpoint);
    const before = destination.forwarded.up;
    await until('it moves', () => destination.forwarded.up - before > MiB);
    const row = await holdRows(installation.sql, (tx) => tx`select from work.transfer_jobs where transfer_id = ${id} for update`);
    destination.throttle(Number.POSITIVE_INFINITY);
    await until('all is sent but the commit', () => destination.forwarded.up - before > 12 * MiB);
    // What the server answers takes a second back: the file has its name long before.
    destination.delay(2_000);
    await row.release();
    await until('it has its name', () => existsSync(join(beta.root, name, name)));
    destination.cut();
    destination.delay(0);
    expect(await expectArrived(id, name, AT_FIRST)).toMatchObject({ verification: { read_back: true } });
  });

  /** Moves most of a file, then takes the destination away for so long that the attempt fails. Gives what was saved. */
  async function interrupted(name: string): Promise<{ id: string; saved: number; part: string }> {
    const before = destination.forwarded.up;
    destination.throttle(24 * MiB);
    const id = await submitted(name);
    await until('most of it is sent', () => destination.forwarded.up - before > 40 * MiB);
    await pauseEndpoint(installation.commands, endpointId, CAUSE);
    await destination.refuse(true);
    destination.cut();
    await untilStatus(installation, id, 'queued');
    const saved = (await savedChunks(installation, id)) * CHUNK;
    expect(saved).toBeGreaterThan(0);
    const [part] = await filesBelow(join(beta.root, name));
    return { id, saved, part: join(beta.root, name, part as string) };
  }

  async function goOn(): Promise<void> {
    destination.throttle(Number.POSITIVE_INFINITY);
    await destination.refuse(false);
    await resumeEndpoint(installation.commands, endpointId, CAUSE);
  }

  test('a retry sends what the attempt before it could not', async () => {
    create('retried', SIZE);
    const { id, saved } = await interrupted('retried');
    const before = destination.forwarded.up;
    await goOn();
    await expectArrived(id, 'retried', AT_SECOND);
    expect(destination.forwarded.up - before).toBeLessThan(SIZE - saved + OVERHEAD);
  });

  test('a source that was replaced before the retry is moved from its start', async () => {
    create('replaced', SIZE);
    const { id } = await interrupted('replaced');
    create('replaced', SIZE - 3);
    await goOn();
    await expectArrived(id, 'replaced', AT_SECOND);
  });

  test('one that was changed in place, in size and time as before, is noticed and moved from its start', async () => {
    const file = create('touched', SIZE);
    const { id } = await interrupted('touched');
    const { atime, mtime } = statSync(file);
    const handle = openSync(file, 'r+');
    writeSync(handle, 'other bytes', 100);
    closeSync(handle);
    utimesSync(file, atime, mtime);
    await goOn();
    await expectArrived(id, 'touched', [...AT_SECOND.slice(0, -1), ...AT_SECOND.slice(-3)]);
    const retries = (await historyOf(installation, id)).flatMap(({ type, data }) =>
      type === 'transfer.queued' && data.reason === 'retry' ? [data.error] : [],
    );
    expect(retries).toMatchObject([{ code: 'connection_failed' }, { code: 'source_changed', phase: 'read' }]);
  });

  test.each([
    ['gone', (part: string) => rmSync(part)],
    ['shorter', (part: string) => truncateSync(part, CHUNK - 1)],
  ])('a part that is %s at the retry is written from its start', async (what, spoil) => {
    const name = `part-${what}`;
    create(name, SIZE);
    const { id, part } = await interrupted(name);
    spoil(part);
    const before = destination.forwarded.up;
    await goOn();
    await expectArrived(id, name, AT_SECOND);
    expect(destination.forwarded.up - before).toBeGreaterThan(SIZE);
  });

  test('a source that is gone at the retry fails the transfer, and its part is removed', async () => {
    const file = create('lost', SIZE);
    const { id } = await interrupted('lost');
    rmSync(file);
    await goOn();
    const { facts } = await untilStatus(installation, id, 'failed');
    expect(facts.error).toMatchObject({ code: 'source_not_found', phase: 'source_open', attempts: 2 });
    await until('the clean-up', async () => (await filesBelow(join(beta.root, 'lost'))).length === 0);
  });
});
