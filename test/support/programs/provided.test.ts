import { test } from 'vitest';
import { whyNoChromium } from '../console/chromium.ts';
import { whyNoAzurite } from '../file-servers/azure/azurite.ts';
import { whyNoFtpsServer } from '../file-servers/ftps/server.ts';
import { whyNoRadosgw } from '../file-servers/s3/radosgw.ts';
import { whyNoOtherSftpServer } from '../file-servers/sftp/other-servers.ts';
import { whyNoSftpServer } from '../file-servers/sftp/server.ts';
import { whyNoProxies } from '../network/proxies.ts';
import { whyNoPgBouncer } from '../postgres/pgbouncer.ts';

/** Those that most tests need come first: packages are unpacked one after the other. */
const PROGRAMS: Record<string, () => Promise<string | null>> = {
  OpenSSH: whyNoSftpServer,
  ProFTPD: () => whyNoFtpsServer('proftpd'),
  vsftpd: () => whyNoFtpsServer('vsftpd'),
  Ceph: whyNoRadosgw,
  Azurite: whyNoAzurite,
  Chromium: whyNoChromium,
  rclone: () => whyNoOtherSftpServer('rclone'),
  AsyncSSH: () => whyNoOtherSftpServer('asyncssh'),
  proxies: whyNoProxies,
  PgBouncer: whyNoPgBouncer,
};

// The first file of a run: it downloads what is not there yet, while other files run that need none
// of it.
test.for(Object.entries(PROGRAMS))(
  'provides %s, or says why not',
  { timeout: 900_000 },
  async ([, whyNo], { skip }) => {
    const reason = await whyNo();
    skip(reason !== null, reason ?? '');
  },
);
