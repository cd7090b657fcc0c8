import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { limitBandwidth } from '../../src/commands/endpoints.ts';
import type { TransferOptions } from '../../src/domain/transfers/options.ts';
import { type ProxiedEndpoint, startBehindProxy } from '../support/file-servers/behind-proxy.ts';
import {
  ENDPOINT_KINDS,
  type EndpointName,
  sha256At,
  type TestEndpoint,
  uriOf,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { LONG } from '../support/run/long.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { storyOf, until, untilCleanedUp } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const KiB = 1 << 10;
const MiB = 1 << 20;
/** Several chunks of each protocol. */
const SIZE = 9 * MiB;
/** Two files take an hour at this pace: no test waits for them. */
const SLOW = 5 * KiB;
/** The least that an API allows, which no server may take for a silent client. */
const LEAST = KiB;
const ALL = ['sftp', 'ftps', 's3-strict', 'azure'] as const;
const KINDS = ALL.filter((name) => whyNotAll([name]) === null);

describeWithPostgres('the bandwidth of an endpoint', () => {
  let installation: TestInstallation;
  let roles: RunningRoles;
  let other: TestEndpoint;
  const limited = new Map<EndpointName, ProxiedEndpoint & { id: string }>();
  const serverOf = (name: EndpointName) => limited.get(name) as ProxiedEndpoint & { id: string };

  beforeAll(async () => {
    [installation, other] = await Promise.all([
      openTestInstallation(),
      ENDPOINT_KINDS['s3-strict'].start(),
    ]);
    await configureEndpoint(installation, { ...other.request, name: 'other' });
    await other.put('file', randomBytes(SIZE));
    for (const name of KINDS) {
      const server = await startBehindProxy(name);
      const id = await configureEndpoint(installation, { ...server.request, name });
      limited.set(name, { ...server, id });
      await server.put('file', randomBytes(SIZE));
    }
    roles = await startRoles(installation);
  });
  afterAll(async () => {
    await roles?.stop();
    await installation?.close();
    for (const server of [other, ...limited.values()]) await server?.stop();
  });

  async function limitAll(bytes_per_second: number | null): Promise<void> {
    for (const { id } of limited.values())
      await limitBandwidth(installation.commands, id, { bytes_per_second, windows: [] }, CAUSE);
  }

  interface Moving {
    id: string;
    from: [TestEndpoint, string];
    to: [TestEndpoint, string];
  }

  /** Begins to read from a limited endpoint, or to write to it. */
  async function begin(
    name: EndpointName,
    side: 'source' | 'destination',
    folder: string,
    options: TransferOptions = {},
  ): Promise<Moving> {
    const target = `${folder}/${name}-${side}`;
    const here = uriOf(name, side === 'source' ? 'file' : target);
    const there = `s3://other/${side === 'source' ? target : 'file'}`;
    const [source, destination] = side === 'source' ? [here, there] : [there, here];
    const server = serverOf(name);
    return {
      id: await submit(installation, source, destination, { ...options }),
      from: [side === 'source' ? server : other, 'file'],
      to: [side === 'source' ? other : server, target],
    };
  }

  function beginAll(folder: string, options?: TransferOptions): Promise<Moving[]> {
    return Promise.all(
      KINDS.flatMap((name) => [
        begin(name, 'source', folder, options),
        begin(name, 'destination', folder, options),
      ]),
    );
  }

  async function arrive(moving: Moving[]): Promise<void> {
    for (const { id, from, to } of moving) {
      const ended = await untilStatus(installation, id, ['completed', 'failed'], 150);
      expect(ended.status).toBe('completed');
      expect(await sha256At(...to)).toBe(await sha256At(...from));
    }
  }

  /** Moves as many bytes as the others, without a limit. They had more time than this. */
  async function moveUnlimited(): Promise<void> {
    const id = await submit(installation, 's3://other/file', 's3://other/copy');
    await untilStatus(installation, id, 'completed', 150);
  }

  async function progressOf({ id }: Moving): Promise<number> {
    return (await installation.commands.progressOf(id))?.transferred_bytes ?? 0;
  }

  const forwarded = (name: EndpointName) => {
    const { up, down } = serverOf(name).proxy.forwarded;
    return up + down;
  };

  test.skipIf(KINDS.length === 0)(
    'holds for reading and writing, and changes while files move',
    async () => {
      await limitAll(SLOW);
      const before = new Map(KINDS.map((name) => [name, forwarded(name)]));
      const moving = await beginAll('changed');
      for (const { id } of moving) await untilStatus(installation, id, 'in_progress');
      for (const name of KINDS)
        await until('bytes move', () => forwarded(name) > (before.get(name) ?? 0) + 16 * KiB);
      await moveUnlimited();
      for (const one of moving) {
        expect(await storyOf(installation, one.id)).toEqual([
          'created',
          'queued: admitted',
          'in_progress',
        ]);
        expect(await progressOf(one)).toBeLessThan(SIZE / 2);
      }
      // A download of FTPS fills the buffers of the operating system beyond the limit.
      for (const name of KINDS.filter((name) => name !== 'ftps'))
        expect(forwarded(name) - (before.get(name) ?? 0)).toBeLessThan(SIZE / 2);
      await limitAll(null);
      await arrive(moving);
      for (const { id } of moving)
        expect(await storyOf(installation, id)).toEqual([
          'created',
          'queued: admitted',
          'in_progress',
          'completed',
        ]);
    },
  );

  test.skipIf(KINDS.length === 0)(
    'ends at once when its files are stopped, also at the least limit',
    LONG,
    async () => {
      await limitAll(LEAST);
      const before = new Map(KINDS.map((name) => [name, forwarded(name)]));
      const moving = await beginAll('stopped', { verify: 'read_back' });
      for (const { id } of moving) await untilStatus(installation, id, 'in_progress');
      for (const name of KINDS)
        await until('bytes move', () => forwarded(name) > (before.get(name) ?? 0) + 4 * KiB);
      await roles.stop();
      for (const { id } of moving)
        expect(await storyOf(installation, id)).toEqual([
          'created',
          'queued: admitted',
          'in_progress',
          'queued: mover_lost',
        ]);
      await limitAll(null);
      roles = await startRoles(installation);
      await arrive(moving);
      await untilCleanedUp(installation);
    },
  );

  for (const name of ALL) {
    const reason = whyNotAll([name]);
    if (reason) test.skip(`limits ${name} (skipped: ${reason})`, () => {});
  }

  test.skipIf(KINDS.length === 0)('is fair among its files', LONG, async () => {
    const name = KINDS[0] as EndpointName;
    const { id } = serverOf(name);
    const limit = { bytes_per_second: 512 * KiB, windows: [] };
    await limitBandwidth(installation.commands, id, limit, CAUSE);
    const moving = await Promise.all(
      ['one', 'two', 'three'].map((folder) => begin(name, 'destination', folder)),
    );
    const progress = () => Promise.all(moving.map(progressOf));
    // They begin one after the other.
    const begun = await until('each moves', async () => {
      const bytes = await progress();
      return bytes.every((one) => one > 0) ? bytes : null;
    });
    const moved = await until('they have moved', async () => {
      const bytes = (await progress()).map((one, index) => one - (begun[index] as number));
      return bytes.reduce((sum, one) => sum + one) > 3 * MiB ? bytes : null;
    });
    expect(Math.max(...moved) / Math.min(...moved)).toBeLessThan(2);
    await limitAll(null);
    await arrive(moving);
  });
});
