import { startFtpsServer, whyNoFtpsServer } from '../../../support/file-servers/ftps/server.ts';
import { describeFileEndpoint } from '../contract.ts';
import { fixtureOn } from './ftps-endpoint.ts';

for (const [kind, tls, extraConfig] of [
  ['proftpd', 'explicit', ''],
  ['proftpd', 'implicit', ''],
  ['vsftpd', 'explicit', ''],
  ['vsftpd', 'explicit', 'cmds_denied=SIZE,MDTM'],
] as const) {
  describeFileEndpoint(
    `FTPS on ${kind}, ${tls} TLS ${extraConfig}`.trim(),
    await whyNoFtpsServer(kind),
    async () => fixtureOn(await startFtpsServer({ kind, tls, extraConfig }), tls),
    { partFiles: true },
  );
}
