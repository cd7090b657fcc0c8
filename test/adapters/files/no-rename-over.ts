import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { startFtpsServer, whyNoFtpsServer } from '../../support/file-servers/ftps/server.ts';
import { endpointOn as sftpEndpointOn } from '../../support/file-servers/sftp/endpoint.ts';
import { startSftpServer, whyNoSftpServer } from '../../support/file-servers/sftp/server.ts';
import { endpointOn } from './ftps/ftps-endpoint.ts';

/** A real server that does not rename over a file. */
export interface Fixture {
  endpoint: FileEndpoint;
  root: string;
  stop(): Promise<void>;
}

export async function openSsh(): Promise<Fixture> {
  const server = await startSftpServer({ denied: ['posix-rename'] });
  return { endpoint: sftpEndpointOn(server), root: server.root, stop: server.stop };
}

export async function proftpd(): Promise<Fixture> {
  const server = await startFtpsServer({
    kind: 'proftpd',
    tls: 'explicit',
    extraConfig: 'AllowOverwrite off',
  });
  return {
    endpoint: endpointOn(server, { maxConnections: 8 }),
    root: server.root,
    stop: server.stop,
  };
}

export const SERVERS = [
  ['OpenSSH without posix-rename', await whyNoSftpServer(), openSsh],
  ['ProFTPD without AllowOverwrite', await whyNoFtpsServer('proftpd'), proftpd],
] as const;
