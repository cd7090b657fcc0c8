import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createSftpEndpoint, type SftpEndpointOptions } from '../../../src/adapters/files/sftp/endpoint.ts';
import { type SftpServer, startSftpServer, whyNoSftpServer } from '../../support/sftp-server.ts';
import { describeFileEndpoint } from './contract.ts';

describeFileEndpoint('SFTP on OpenSSH', await whyNoSftpServer(), async () => {
  const server = await startSftpServer();
  const file = (name: string) => join(server.root, name);
  return {
    endpoint: endpointOn(server),
    path: file,
    async put(name, content) {
      await mkdir(dirname(file(name)), { recursive: true });
      await writeFile(file(name), content);
    },
    get: (name) => readFile(file(name)).catch(() => null),
    names: () => readdir(server.root, { recursive: true }),
    stop: server.stop,
  };
});

function endpointOn(server: SftpServer, given: Partial<SftpEndpointOptions> = {}) {
  const { host, port, username, hostKeySha256, privateKey } = server;
  return createSftpEndpoint({
    settings: { protocol: 'sftp', host, port, base_path: '/', username, host_key_sha256: hostKeySha256 },
    credentials: { private_key: privateKey },
    maxConnections: 4,
    ...given,
  });
}
