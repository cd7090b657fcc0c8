import { statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { peakBytes } from '../../bench/support/usage.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../support/service/installation.ts';
import { type SpawnedService, spawnService } from '../support/service/roles.ts';
import { describeTransfers, untilEnded } from '../support/service/transfers.ts';

const MiB = 1 << 20;
const FILES = 8;
/**
 * On a machine with 24 GiB the peak was 256 MiB: buffers 64, heaps and compiled code of four
 * threads 120, Node's program 70. A buffer that each of the files does not return adds 64 MiB.
 */
const MOST_MIB = 300;
/** Together far more than the memory of a service. */
const FILE_BYTES = 1024 * MiB;
/** Arriving files are not sparse. */
const DISK_BYTES = 1.1 * FILES * FILE_BYTES;

await describeTransfers('the memory of a service', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let service: SpawnedService;

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation(),
      startSftpServer(),
      startSftpServer(),
    ]);
    await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'beta', beta);
    await start();
    // Node now writes its cache of compiled code. Without it, each thread also has the compiler of
    // TypeScript: 38 MiB in all.
    writeFileSync(join(alpha.root, 'small'), 'small');
    const id = await submit(installation, 'sftp://alpha/small', 'sftp://beta/small');
    expect(await untilEnded(installation, id)).toMatchObject({ status: 'completed' });
    await service.stop();
    await start();
  });

  async function start(): Promise<void> {
    service = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });
  }

  afterAll(async () => {
    await service?.kill();
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  test(`stays below ${MOST_MIB} MiB while 8 files of 1 GiB move at once`, async (ctx) => {
    if (peakBytes(service.pid) === null) return ctx.skip('this system does not report peak memory');
    const { bavail, bsize } = statfsSync(beta.root);
    if (bavail * bsize < DISK_BYTES)
      return ctx.skip(`it takes ${Math.ceil(DISK_BYTES / 2 ** 30)} GiB of disk`);
    const names = Array.from({ length: FILES }, (_, index) => `large-${index}`);
    for (const name of names) {
      writeFileSync(join(alpha.root, name), '');
      truncateSync(join(alpha.root, name), FILE_BYTES);
    }
    const ids = await Promise.all(
      names.map((name) => submit(installation, `sftp://alpha/${name}`, `sftp://beta/${name}`)),
    );
    for (const id of ids) {
      expect(await untilEnded(installation, id)).toMatchObject({ status: 'completed' });
    }
    for (const name of names) expect((await stat(join(beta.root, name))).size).toBe(FILE_BYTES);
    expect((peakBytes(service.pid) as number) / MiB).toBeLessThan(MOST_MIB);
  });
});
