import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { configureSftp, openTestInstallation, submit, type TestInstallation, untilStatus } from '../support/installation.ts';
import { type RunningRoles, startRoles } from '../support/roles.ts';
import { type SftpServer, startSftpServer } from '../support/sftp-server.ts';
import { type Direction, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { describeTransfers, filesBelow, retriesOf, sha256Of, storyOf, until } from '../support/transfers.ts';

// They move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;

await describeTransfers('faults of servers and networks', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let source: TcpProxy;
  let destination: TcpProxy;
  let roles: RunningRoles;

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation({ WAYBILL_TRANSFER_RETRY_DELAYS: Array(100).fill('200ms').join(',') }),
      startSftpServer(),
      startSftpServer(),
    ]);
    [source, destination] = await Promise.all([startTcpProxy(alpha), startTcpProxy(beta)]);
    roles = await startRoles(installation);
    await configureSftp(installation, 'alpha', { ...alpha, port: source.port });
    await configureSftp(installation, 'beta', { ...beta, port: destination.port });
    await configureSftp(installation, 'careful', { ...beta, port: destination.port }, { overwrite: false });
  });
  afterEach(() => {
    for (const proxy of [source, destination]) {
      proxy.throttle(Number.POSITIVE_INFINITY);
      proxy.delay(0);
    }
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([source?.close(), destination?.close()]);
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  const create = (name: string, size: number) => writeFileSync(join(alpha.root, name), randomBytes(size));
  const submitted = (name: string, endpoint = 'beta') => submit(installation, `sftp://alpha/${name}`, `sftp://${endpoint}/${name}/`);

  async function expectArrived(id: string, name: string): Promise<void> {
    const done = await untilStatus(installation, id, ['completed', 'failed']);
    const sha256 = await sha256Of(join(alpha.root, name));
    expect(done).toMatchObject({ status: 'completed', checksum_sha256: sha256 });
    expect(await sha256Of(join(beta.root, name, name))).toBe(sha256);
    expect((await storyOf(installation, id)).filter((step) => step === 'completed')).toHaveLength(1);
    await until('the clean-up', async () => (await installation.sql`select from work.cleanups`).length === 0);
    expect(await filesBelow(join(beta.root, name))).toEqual([name]);
  }

  test.each([
    ['source', 'down', () => source],
    ['source', 'up', () => source],
    ['destination', 'up', () => destination],
    ['destination', 'down', () => destination],
  ] as [string, Direction, () => TcpProxy][])(
    'a connection that is cut after any eighth of all that goes to and fro, from the greeting to the rename: %s, %s',
    async (side, direction, proxyOf) => {
      const proxy = proxyOf();
      const move = async (name: string) => {
        create(name, 5_000);
        // No connection is left from before: all of it is done anew.
        source.cut();
        destination.cut();
        await until('they are gone', () => source.connections + destination.connections === 0);
        // What it may not overwrite may be its own file, whose rename was not answered.
        const id = await submitted(name, 'careful');
        await expectArrived(id, name);
        return id;
      };
      const before = proxy.forwarded[direction];
      await move(`uncut-${side}-${direction}`);
      const all = proxy.forwarded[direction] - before;
      const phases = new Set<string>();
      for (let eighth = 0; eighth < 8; eighth++) {
        proxy.cutAfter(Math.max(1, Math.floor((all * eighth) / 8)), direction);
        for (const { code, phase } of await retriesOf(installation, await move(`cut-${side}-${direction}-${eighth}`))) {
          expect(code).toBe('connection_failed');
          phases.add(phase);
        }
      }
      expect([...phases]).toEqual(expect.arrayContaining([`${side}_connect`]));
    },
  );

  test('a long round trip and a narrow line', async () => {
    for (const proxy of [source, destination]) {
      proxy.delay(80);
      proxy.throttle(4 * MiB);
    }
    create('far', 9 * MiB);
    const id = await submitted('far');
    await expectArrived(id, 'far');
    expect(await retriesOf(installation, id)).toEqual([]);
  });
});
