import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type SftpServer, startSftpServer } from '../../test/support/sftp-server.ts';
import type { Bench } from './bench.ts';
import { startProxy } from './proxy.ts';

/** A server as a client sees it. */
export interface SftpSide {
  name: string;
  /** The server's own port, or that of the proxy before it. */
  port: number;
  server: SftpServer;
  /** Folder of the files, in memory where the system has such a thing. */
  folder: string;
  /** As `waybill endpoints add` takes it. */
  endpoint: Record<string, unknown>;
}

/** Most partners give an account for files alone. It also spares a peer the hashing that it would have the servers do. */
const FILES_ALONE = 'ForceCommand internal-sftp\nDisableForwarding yes';

/** Two OpenSSH servers, each behind a proxy where there is a delay. */
export async function startSftpPair(bench: Bench, roundTripMs: number): Promise<{ source: SftpSide; destination: SftpSide }> {
  const [source, destination] = await Promise.all(['hospital', 'bank'].map((name) => startSide(bench, name, roundTripMs)));
  return { source: source as SftpSide, destination: destination as SftpSide };
}

async function startSide(bench: Bench, name: string, roundTripMs: number): Promise<SftpSide> {
  const server = await startSftpServer(bench.options.shell ? {} : { extraConfig: FILES_ALONE });
  bench.defer(() => server.stop());
  const folder = await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : bench.folder, `waybill-bench-${name}-`));
  bench.defer(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'out'));
  const port = roundTripMs > 0 ? await startProxy(bench, server.port, roundTripMs) : server.port;
  const { host, username, privateKey, hostKeySha256 } = server;
  const endpoint = {
    name,
    protocol: 'sftp',
    host,
    port,
    base_path: folder,
    username,
    private_key: privateKey,
    host_key_sha256: hostKeySha256,
  };
  return { name, port, server, folder, endpoint };
}
