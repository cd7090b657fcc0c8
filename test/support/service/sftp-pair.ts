import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import type { Transfer } from '../../../src/domain/transfers/transfer.ts';
import { type SftpServer, startSftpServer } from '../file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../network/tcp-proxy.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from './installation.ts';
import { type RunningRoles, startRoles } from './roles.ts';
import { filesBelow, sha256Of, storyOf, untilCleanedUp } from './transfers.ts';

/** An installation that moves files from one SFTP server to another, each behind a proxy. */
export interface SftpPair {
  installation: TestInstallation;
  /** The source, configured as `alpha`. */
  alpha: SftpServer;
  /** The destination, configured as `beta`, and as `careful` without overwriting. */
  beta: SftpServer;
  betaId: string;
  /** In front of alpha. Neither proxy has a limit, delay or cut when a test begins. */
  source: TcpProxy;
  /** In front of beta. */
  destination: TcpProxy;
  /** Writes this many random bytes to a file at the source. */
  create(name: string, size: number): string;
  /** Submits the transfer of a file to a folder of the same name. */
  submitted(name: string, endpoint?: string): Promise<string>;
  /**
   * Waits for the end. Expects that the file has arrived whole in its folder and that nothing else
   * is left there.
   */
  expectArrived(id: string, name: string, folder?: string): Promise<Transfer>;
}

/**
 * Sets up a pair for the tests of a block, with whole roles or with what `start` starts instead.
 */
export function useSftpPair(
  settings: Record<string, string> = {},
  start: (installation: TestInstallation) => RunningRoles | Promise<RunningRoles> = startRoles,
): SftpPair {
  const pair = {} as SftpPair;
  let roles: RunningRoles;

  beforeAll(async () => {
    const [installation, alpha, beta] = await Promise.all([
      openTestInstallation(settings),
      startSftpServer(),
      startSftpServer(),
    ]);
    const [source, destination] = await Promise.all([startTcpProxy(alpha), startTcpProxy(beta)]);
    Object.assign(pair, { installation, alpha, beta, source, destination });
    roles = await start(installation);
    const behind = { ...beta, port: destination.port };
    await configureSftp(installation, 'alpha', { ...alpha, port: source.port });
    pair.betaId = await configureSftp(installation, 'beta', behind);
    await configureSftp(installation, 'careful', behind, { overwrite: false });
  });
  beforeEach(() => {
    for (const proxy of [pair.source, pair.destination]) {
      proxy.throttle(Number.POSITIVE_INFINITY);
      proxy.delay(0);
      proxy.cutEach(Number.POSITIVE_INFINITY);
    }
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([pair.source?.close(), pair.destination?.close()]);
    await Promise.all([pair.installation?.close(), pair.alpha?.stop(), pair.beta?.stop()]);
  });

  return Object.assign(pair, {
    create(name: string, size: number) {
      const file = join(pair.alpha.root, name);
      writeFileSync(file, randomBytes(size));
      return file;
    },
    submitted: (name: string, endpoint = 'beta') =>
      submit(pair.installation, `sftp://alpha/${name}`, `sftp://${endpoint}/${name}/`),
    async expectArrived(id: string, name: string, folder = name) {
      const done = await untilStatus(pair.installation, id, ['completed', 'failed'], 60);
      const sha256 = await sha256Of(join(pair.alpha.root, name));
      expect(done).toMatchObject({ status: 'completed', checksum_sha256: sha256 });
      expect(await sha256Of(join(pair.beta.root, folder, name))).toBe(sha256);
      expect(
        (await storyOf(pair.installation, id)).filter((step) => step === 'completed'),
      ).toHaveLength(1);
      await untilCleanedUp(pair.installation);
      expect(await filesBelow(join(pair.beta.root, folder))).toEqual([name]);
      return done;
    },
  });
}
