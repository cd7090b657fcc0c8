import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { whyNoFtpsServer } from './support/file-servers/ftps/server.ts';
import { whyNoRadosgw } from './support/file-servers/s3/radosgw.ts';
import { whyNoSftpServer } from './support/file-servers/sftp/server.ts';
import { describeWithPostgres } from './support/postgres/test-database.ts';

const ROOT = join(import.meta.dirname, '..');
/** The longest takes a minute and a half on two quiet cores. */
const WITHIN_MS = 10 * 60_000;

const anywhere = async () => null;
const withFileServers = async () =>
  (await whyNoSftpServer()) ?? (await whyNoRadosgw()) ?? (await whyNoFtpsServer('proftpd'));

/** The smallest run of each benchmark, and what its tables must name. */
const BENCHES: [args: string, tables: RegExp[], whyNot: () => Promise<string | null>][] = [
  ['log --seconds 0.2 --events 100000', [/^ +64 +one by one/m, /^rebuild of tr/m], anywhere],
  ['http --seconds 0.2', [/^POST with keys +64 +without/m, /^GET /m], anywhere],
  ['lag', [/^round +events\/s +p50 ms +p99 ms /m, /^ +1 +[\d,]+( +[\d.,]+){4}$/m], anywhere],
  ['webhooks --only one,latency --scale 0.02', [/^bare undici/m, /^waybill +\d/m], anywhere],
  ['proof --events 100000', [/^audit verify/m, /^Receipts of/m], anywhere],
  ['search --scale 0.001', [/^none +nothing-at-all/m], anywhere],
  ['latency --scale 0.05', [/^201 to the first bytes/m], whyNoSftpServer],
  ['sftp --scale 0.01 --delays 0', [/^sftp -> sftp .* rclone/m], whyNoSftpServer],
  [
    'pairs --only s3-sftp,ftps-s3,small --scale 0.01 --delays 0',
    [/^ftps -> s3 /m],
    withFileServers,
  ],
];

describeWithPostgres('a benchmark', () => {
  test.for(BENCHES)('%s', async ([args, tables, whyNot], { skip }) => {
    const reason = await whyNot();
    skip(reason !== null, reason ?? '');
    const { stdout } = await promisify(execFile)(
      join(ROOT, 'bin/node'),
      ['bench/run.ts', ...args.split(' '), '--runs', '1'],
      { cwd: ROOT, timeout: WITHIN_MS },
    );
    for (const table of tables) expect(stdout).toMatch(table);
  });
});
