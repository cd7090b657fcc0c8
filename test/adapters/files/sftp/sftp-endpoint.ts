import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { createSftpEndpoint } from '../../../../src/adapters/files/sftp/endpoint.ts';
import type { SftpServer } from '../../../support/file-servers/sftp/server.ts';

/** Returns the endpoint of a server, from its root folder, with its pinned host key. */
export function endpointOn(server: SftpServer): FileEndpoint {
  const { host, port, username, privateKey, hostKeySha256 } = server;
  return createSftpEndpoint({
    settings: {
      protocol: 'sftp',
      host,
      port,
      base_path: '/',
      username,
      host_key_sha256: hostKeySha256,
      host_keys: null,
    },
    credentials: { private_key: privateKey },
    maxConnections: 4,
  });
}
