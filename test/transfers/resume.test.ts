import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import type { Continued } from '../../src/domain/transfers/transfer.ts';
import { holdRows } from '../support/postgres/row-locks.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureSftp, untilStatus } from '../support/service/installation.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import {
  describeTransfers,
  filesBelow,
  historyOf,
  savedChunks,
  storyOf,
  until,
} from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
const CHUNK = 8 * MiB;
/** Chunks of one file that may be in flight at once. */
const IN_FLIGHT = 6 * CHUNK;
const SIZE = 48 * MiB;
/** More than is in flight: a move that starts again sends more than one that goes on. */
const LATE = 64 * MiB;
const OVERHEAD = 2 * MiB;
const AT_FIRST = ['created', 'queued: admitted', 'in_progress', 'completed'];
const AT_SECOND = [
  'created',
  'queued: admitted',
  'in_progress',
  'queued: retry',
  'in_progress',
  'completed',
];

await describeTransfers('a move that is interrupted', () => {
  const pair = useSftpPair({ WAYBILL_TRANSFER_RETRY_DELAYS: '100ms,200ms,300ms' });

  async function expectArrived(id: string, name: string, story: string[]) {
    const done = await pair.expectArrived(id, name);
    expect(await storyOf(pair.installation, id)).toEqual(story);
    return done;
  }

  for (const [side, cutLater, options] of [
    ['source', () => pair.source.cutAfter(LATE, 'down'), LONG],
    ['destination', () => pair.destination.cutAfter(LATE, 'up'), LONG],
    ['both', () => pair.destination.cutAfter(LATE, 'up'), {}],
  ] as const) {
    const title =
      'a connection that breaks late is replaced, and only the bytes in flight are sent again: ';
    test(title + side, options, async () => {
      const name = `cut-${side}`;
      const size = LATE + CHUNK;
      pair.create(name, size);
      const before = { read: pair.source.forwarded.down, sent: pair.destination.forwarded.up };
      cutLater();
      const id = await pair.submitted(name);
      if (side === 'both') {
        await until('it is cut', () => pair.destination.forwarded.up - before.sent >= LATE);
        pair.source.cut();
      }
      await expectArrived(id, name, AT_FIRST);
      expect(pair.source.forwarded.down - before.read).toBeLessThan(size + IN_FLIGHT + OVERHEAD);
      expect(pair.destination.forwarded.up - before.sent).toBeLessThan(size + IN_FLIGHT + OVERHEAD);
    });
  }

  test('a connection that breaks three times is replaced three times', LONG, async () => {
    const name = 'cut-thrice';
    pair.create(name, 32 * MiB);
    for (const proxy of [pair.source, pair.destination]) proxy.throttle(16 * MiB);
    const id = await pair.submitted(name);
    for (const [proxy, direction] of [
      [pair.source, 'down'],
      [pair.destination, 'up'],
      [pair.source, 'down'],
    ] as const) {
      const before = proxy.forwarded[direction];
      await until('it moves', () => proxy.forwarded[direction] - before > 4 * MiB);
      proxy.cut();
    }
    await expectArrived(id, name, AT_FIRST);
  });

  for (const [endpoint, options] of [
    ['beta', LONG],
    ['careful', {}],
  ] as const) {
    test(`a rename whose answer is lost is found to be done: ${endpoint}`, options, async () => {
      const name = `answer-lost-${endpoint}`;
      pair.create(name, 12 * MiB);
      pair.destination.throttle(12 * MiB);
      const id = await pair.submitted(name, endpoint);
      const before = pair.destination.forwarded.up;
      await until('it moves', () => pair.destination.forwarded.up - before > MiB);
      const row = await holdRows(
        pair.installation.sql,
        (tx) => tx`select from work.transfer_jobs where transfer_id = ${id} for update`,
      );
      pair.destination.throttle(Number.POSITIVE_INFINITY);
      await until(
        'everything is sent except the commit',
        () => pair.destination.forwarded.up - before > 12 * MiB,
      );
      // What the server answers takes a second back: the file has its name long before.
      pair.destination.delay(2_000);
      await row.release();
      await until('it has its name', () => existsSync(join(pair.beta.root, name, name)));
      pair.destination.cut();
      pair.destination.delay(0);
      expect(await expectArrived(id, name, AT_FIRST)).toMatchObject({
        verification: { read_back: true },
      });
    });
  }

  test('a part that was removed before the commit is sent again', async () => {
    const name = 'removed-at-the-end';
    pair.create(name, 12 * MiB);
    pair.destination.throttle(12 * MiB);
    const id = await pair.submitted(name);
    const before = pair.destination.forwarded.up;
    const folder = join(pair.beta.root, name);
    await until('it moves', () => pair.destination.forwarded.up - before > MiB);
    const row = await holdRows(
      pair.installation.sql,
      (tx) => tx`select from work.transfer_jobs where transfer_id = ${id} for update`,
    );
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    await until('all is sent', () => pair.destination.forwarded.up - before > 12 * MiB);
    for (const part of await filesBelow(folder)) rmSync(join(folder, part));
    await row.release();
    await expectArrived(id, name, AT_FIRST);
  });

  /**
   * Moves most of a file, then takes the destination down until the attempt fails. Returns the
   * saved progress.
   */
  async function interrupted(name: string): Promise<{ id: string; saved: number; part: string }> {
    pair.destination.throttle(24 * MiB);
    const id = await pair.submitted(name);
    await interrupt(id, 40 * MiB);
    const saved = (await savedChunks(pair.installation, id)) * CHUNK;
    expect(saved).toBeGreaterThan(0);
    const [part] = await filesBelow(join(pair.beta.root, name));
    return { id, saved, part: join(pair.beta.root, name, part as string) };
  }

  /** Lets the attempt send this much, then takes the destination down until the attempt fails. */
  async function interrupt(id: string, bytes: number): Promise<void> {
    const before = pair.destination.forwarded.up;
    await until('enough is sent', () => pair.destination.forwarded.up - before > bytes);
    pair.destination.throttle(MiB);
    await pauseEndpoint(pair.installation.commands, pair.betaId, CAUSE);
    await pair.destination.refuse(true);
    pair.destination.cut();
    await untilStatus(pair.installation, id, 'queued');
  }

  async function goOn(): Promise<void> {
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    await pair.destination.refuse(false);
    await resumeEndpoint(pair.installation.commands, pair.betaId, CAUSE);
  }

  test('a retry sends only the bytes that the previous attempt could not', LONG, async () => {
    pair.create('retried', SIZE);
    const { id, saved } = await interrupted('retried');
    const before = pair.destination.forwarded.up;
    await goOn();
    await expectArrived(id, 'retried', AT_SECOND);
    expect(pair.destination.forwarded.up - before).toBeLessThan(SIZE - saved + OVERHEAD);
  });

  test('a file arrives although more attempts fail than there are retries', LONG, async () => {
    const name = 'forward';
    pair.create(name, 14 * CHUNK);
    pair.destination.throttle(24 * MiB);
    const id = await pair.submitted(name);
    for (let attempt = 1; attempt <= 5; attempt++) {
      await interrupt(id, 2 * CHUNK + OVERHEAD);
      await goOn();
      pair.destination.throttle(24 * MiB);
    }
    const { facts } = await pair.expectArrived(id, name);
    expect(facts.retry_count).toBe(5);
    const retries = (await historyOf(pair.installation, id)).filter(
      ({ data }) => (data as { reason?: string }).reason === 'retry',
    );
    const inARow = retries.map(({ data }) => (data as Partial<Continued>).failed_in_a_row);
    expect(inARow.slice(1)).toEqual([1, 1, 1, 1]);
  });

  test('a move whose record an older version has saved starts over', LONG, async () => {
    pair.create('older', SIZE);
    const { id } = await interrupted('older');
    const before = pair.destination.forwarded.up;
    await pair.installation.sql`
      update work.transfer_jobs set resume_record = resume_record - 'sums' || '{"crcs": "AAAAAA=="}'
       where transfer_id = ${id}`;
    await goOn();
    await expectArrived(id, 'older', AT_SECOND);
    expect(pair.destination.forwarded.up - before).toBeGreaterThan(SIZE);
  });

  test('a source that was replaced before the retry is moved from its start', LONG, async () => {
    pair.create('replaced', SIZE);
    const { id } = await interrupted('replaced');
    pair.create('replaced', SIZE - 3);
    await goOn();
    await expectArrived(id, 'replaced', AT_SECOND);
  });

  test('a changed source of the same size and time is moved from its start', LONG, async () => {
    const file = pair.create('touched', SIZE);
    const { id } = await interrupted('touched');
    const { atime, mtime } = statSync(file);
    const handle = openSync(file, 'r+');
    writeSync(handle, 'other bytes', 100);
    closeSync(handle);
    utimesSync(file, atime, mtime);
    await goOn();
    await expectArrived(id, 'touched', [...AT_SECOND.slice(0, -1), ...AT_SECOND.slice(-3)]);
    const retries = (await historyOf(pair.installation, id)).flatMap(({ type, data }) =>
      type === 'transfer.queued' && data.reason === 'retry' ? [data.error] : [],
    );
    expect(retries).toMatchObject([
      { code: 'connection_failed' },
      { code: 'source_changed', phase: 'read' },
    ]);
  });

  for (const [what, spoil] of [
    ['gone', (part: string) => rmSync(part)],
    ['shorter', (part: string) => truncateSync(part, CHUNK - 1)],
  ] as const) {
    test(`a part that is ${what} at the retry is written from its start`, LONG, async () => {
      const name = `part-${what}`;
      pair.create(name, SIZE);
      const { id, part } = await interrupted(name);
      spoil(part);
      const before = pair.destination.forwarded.up;
      await goOn();
      await expectArrived(id, name, AT_SECOND);
      expect(pair.destination.forwarded.up - before).toBeGreaterThan(SIZE);
    });
  }

  test('a source that is gone at the retry fails the transfer', LONG, async () => {
    const file = pair.create('lost', SIZE);
    const { id } = await interrupted('lost');
    rmSync(file);
    await goOn();
    const { facts } = await untilStatus(pair.installation, id, 'failed');
    expect(facts.error).toMatchObject({
      code: 'source_not_found',
      phase: 'source_open',
      attempts: 2,
    });
    await until(
      'the clean-up',
      async () => (await filesBelow(join(pair.beta.root, 'lost'))).length === 0,
    );
  });

  test(
    'a server that takes only the new credentials gets them after a broken connection',
    LONG,
    async () => {
      const { installation, beta, destination } = pair;
      const keys = join(beta.root, '..', 'authorized_keys');
      const both = readFileSync(keys, 'utf8');
      pair.create('new-credentials', SIZE);
      const before = destination.forwarded.up;
      destination.throttle(16 * MiB);
      const id = await pair.submitted('new-credentials');
      await until('it is under way', () => destination.forwarded.up - before > SIZE / 2);
      const [, newer] = both.split('\n');
      writeFileSync(keys, `${newer}\n`);
      const { privateKey, passphrase } = beta.protectedKey;
      await configureSftp(
        installation,
        'beta',
        { ...beta, port: destination.port },
        {
          private_key: privateKey,
          passphrase,
        },
      );
      destination.cut();
      destination.throttle(Number.POSITIVE_INFINITY);
      const sent = destination.forwarded.up;
      const done = await pair.expectArrived(id, 'new-credentials');
      expect(done.facts.retry_count).toBe(0);
      expect((await historyOf(installation, id))[3]?.data).toMatchObject({
        given_back: 'endpoint_changed',
      });
      expect(destination.forwarded.up - sent).toBeLessThan(SIZE);
      writeFileSync(keys, both);
    },
  );
});
