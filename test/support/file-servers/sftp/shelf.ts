import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fingerprintOf, newHostKey, startDemoServer } from '../../../../src/dev/sftp-server.ts';

/** An SFTP server with a temporary folder. */
export interface Shelf {
  /** The folder that it serves. */
  root: string;
  /** What configures it as the endpoint `shelf`. */
  endpoint: {
    name: string;
    protocol: string;
    host: string;
    port: number;
    host_key_sha256: string;
    username: string;
    password: string;
  };
  stop(): Promise<void>;
}

/** Starts the demo's SFTP server on an empty folder. */
export async function startShelf(): Promise<Shelf> {
  const root = await mkdtemp(join(tmpdir(), 'waybill-shelf-'));
  const hostKey = newHostKey();
  const account = { username: 'demo', password: 'secret' };
  const server = await startDemoServer({ root, port: 0, hostKey, ...account });
  return {
    root,
    endpoint: {
      name: 'shelf',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: server.port,
      host_key_sha256: fingerprintOf(hostKey),
      ...account,
    },
    async stop() {
      await server.close();
      await rm(root, { recursive: true });
    },
  };
}
