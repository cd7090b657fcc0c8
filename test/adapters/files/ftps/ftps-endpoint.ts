import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  createFtpsEndpoint,
  type FtpsEndpointOptions,
} from '../../../../src/adapters/files/ftps/endpoint.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import type { FtpsServer } from '../../../support/file-servers/ftps/server.ts';
import type { EndpointFixture } from '../contract.ts';

type Signed = Pick<FtpsServer, 'host' | 'port' | 'username' | 'password' | 'caPem'>;

export interface Given extends Partial<FtpsEndpointOptions> {
  tls?: 'explicit' | 'implicit';
  host?: string;
  port?: number;
  password?: string;
  caPem?: string | null;
}

export function endpointOn(
  server: Signed,
  { tls, host, port, password, caPem, ...given }: Given = {},
): FileEndpoint {
  return createFtpsEndpoint({
    settings: {
      protocol: 'ftps',
      host: host ?? server.host,
      port: port ?? server.port,
      base_path: '/',
      username: server.username,
      tls: tls ?? 'explicit',
      ca_pem: caPem === undefined ? server.caPem : caPem,
    },
    credentials: { password: password ?? server.password },
    maxConnections: 4,
    ...given,
  });
}

export function fixtureOn(
  server: Signed & Pick<FtpsServer, 'root' | 'remotePath' | 'stop'>,
  tls: 'explicit' | 'implicit',
): EndpointFixture {
  const file = (name: string) => join(server.root, name);
  return {
    endpoint: endpointOn(server, { tls }),
    path: server.remotePath,
    async put(name, content) {
      await mkdir(dirname(file(name)), { recursive: true });
      await writeFile(file(name), content);
    },
    get: (name) => readFile(file(name)).catch(() => null),
    names: () => readdir(server.root, { recursive: true }),
    stop: server.stop,
  };
}
