import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { newId } from '../../../../src/domain/ids.ts';
import type { ResumeRecord } from '../../../../src/processes/mover/move/move-state.ts';
import { upload } from '../../../adapters/files/contract.ts';
import {
  otherSftpEndpoint,
  startOtherSftpServer,
  whyNoOtherSftpServer,
} from '../../../support/file-servers/sftp/other-servers.ts';
import { startTcpProxy } from '../../../support/network/tcp-proxy.ts';
import { debianPackages } from '../../../support/programs/debian.ts';
import { moveWith } from '../../../support/service/move.ts';

const CHUNK_BYTES = 8 << 20;
const FTPQUOTA = '/usr/sbin/ftpquota';
const quotas = await debianPackages(['proftpd-core', 'proftpd-mod-crypto'], [FTPQUOTA]);
const whyNot = (await whyNoOtherSftpServer('proftpd')) ?? (quotas.available ? null : quotas.reason);
const title = 'a server that discards each file over its quota gets it no more than five times';

/** Returns lines of configuration for a quota of 1 MB. */
function quota(): string {
  const tables = mkdtempSync(join(tmpdir(), 'waybill-quota-'));
  onTestFinished(() => rmSync(tables, { recursive: true }));
  const tool = quotas.available ? quotas.path(FTPQUOTA) : '';
  const ftpquota = (type: string, ...args: string[]) =>
    execFileSync('perl', [tool, `--type=${type}`, `--table-path=${join(tables, type)}`, ...args]);
  for (const type of ['limit', 'tally']) ftpquota(type, '--create-table');
  const limit = ['--quota-type=user', '--limit-type=hard', '--bytes-upload=1', '--units=Mb'];
  ftpquota('limit', '--add-record', '--name=waybill', ...limit);
  return [
    'LoadModule mod_quotatab.c',
    'LoadModule mod_quotatab_file.c',
    'QuotaEngine on',
    `QuotaLimitTable file:${join(tables, 'limit')}`,
    `QuotaTallyTable file:${join(tables, 'tally')}`,
  ].join('\n');
}

// mod_quotatab of ProFTPD accepts all bytes, the flush and the close, and removes the file.
test.skipIf(whyNot)(whyNot === null ? title : `${title} (${whyNot})`, async () => {
  const [from, to] = [
    await startOtherSftpServer('proftpd'),
    await startOtherSftpServer('proftpd', quota()),
  ];
  const proxy = await startTcpProxy(to);
  const source = otherSftpEndpoint(from);
  const endpoint = otherSftpEndpoint(to, proxy.port);
  onTestFinished(async () => {
    for (const each of [source, endpoint]) await each.close();
    await proxy.close();
    for (const each of [from, to]) await each.stop();
  });
  const size = CHUNK_BYTES + 1;
  await upload(source, from.remotePath('file'), randomBytes(size));
  const transferId = newId('txr');
  let record: ResumeRecord | null = null;
  const attempt = () =>
    moveWith({
      transferId,
      source: { endpoint: source, path: from.remotePath('file') },
      destination: { endpoint, path: to.remotePath('file') },
      record,
      save: async (saved) => {
        record = saved;
        return true;
      },
    });
  for (let attempts = 1; attempts <= 4; attempts++)
    await expect(attempt()).rejects.toMatchObject({
      failure: { code: 'connection_failed', message: expect.stringContaining('quota') },
    });
  expect(proxy.forwarded.up).toBeLessThan(5 * size + CHUNK_BYTES / 2);
  expect(readdirSync(to.root)).toEqual([]);
});
