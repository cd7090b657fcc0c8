import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  createSftpEndpoint,
  type SftpEndpointOptions,
} from '../../../../src/adapters/files/sftp/endpoint.ts';
import type { SftpSettings } from '../../../../src/domain/protocols/sftp.ts';

/** Where an SFTP server listens, and how a client signs in. */
interface Reachable {
  host: string;
  port: number;
  username: string;
  hostKeySha256: string;
  privateKey?: string;
  password?: string | undefined;
}

export type Given = Partial<Omit<SftpEndpointOptions, 'settings'>> & {
  /** Replaces settings, such as the port of a proxy. */
  settings?: Partial<SftpSettings>;
};

/**
 * Returns an endpoint for all files of a server, with its pinned host key. Signs in with the key of
 * the server's account; with the password if it has none.
 */
export function endpointOn(server: Reachable, { settings, ...given }: Given = {}): FileEndpoint {
  const { host, port, username, hostKeySha256, privateKey, password = '' } = server;
  return createSftpEndpoint({
    settings: {
      protocol: 'sftp',
      host,
      port,
      base_path: '/',
      username,
      host_key_sha256: hostKeySha256,
      host_keys: null,
      ...settings,
    },
    credentials: privateKey === undefined ? { password } : { private_key: privateKey },
    maxConnections: 4,
    ...given,
  });
}
