import { startFtpsServer, whyNoFtpsServer } from '../../../support/file-servers/ftps/server.ts';
import { longUnless } from '../../../support/run/long.ts';
import { describeFileEndpoint } from '../contract.ts';
import { fixtureOn } from './ftps-endpoint.ts';

/** Commands that a server announces and refuses. */
const DENIED = {
  proftpd: '<Limit MLST MLSD>\nDenyAll\n</Limit>',
  vsftpd: 'cmds_denied=SIZE,MDTM',
} as const;

for (const [kind, tls, lacking] of [
  ['proftpd', 'explicit', ''],
  ['proftpd', 'implicit', ''],
  ['proftpd', 'explicit', ' without MLST and MLSD'],
  ['vsftpd', 'explicit', ''],
  ['vsftpd', 'explicit', ' without SIZE and MDTM'],
] as const) {
  const extraConfig = lacking === '' ? '' : DENIED[kind];
  describeFileEndpoint(
    `FTPS on ${kind}, ${tls} TLS${lacking}`,
    await whyNoFtpsServer(kind),
    async () => fixtureOn(await startFtpsServer({ kind, tls, extraConfig }), tls),
    { partFiles: true, ...longUnless(kind === 'proftpd' && tls === 'explicit' && lacking === '') },
  );
}
