import { startFtpsServer, whyNoFtpsServer } from '../../../support/file-servers/ftps/server.ts';
import { describeFileEndpoint } from '../contract.ts';
import { fixtureOn } from './ftps-endpoint.ts';

for (const [kind, tls] of [
  ['proftpd', 'explicit'],
  ['proftpd', 'implicit'],
  ['vsftpd', 'explicit'],
] as const) {
  describeFileEndpoint(
    `FTPS on ${kind}, ${tls} TLS`,
    await whyNoFtpsServer(kind),
    async () => fixtureOn(await startFtpsServer({ kind, tls }), tls),
    { partFiles: true },
  );
}
