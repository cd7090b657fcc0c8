import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, realpath } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import ssh2, { type AuthContext, type Connection } from 'ssh2';
import { serveFiles } from './sftp-files.ts';

export interface DemoServerOptions {
  /** Created if missing; clients see it as `/`. */
  root: string;
  /** On loopback; 0 for any free port. */
  port: number;
  /** In OpenSSH's format. */
  hostKey: string;
  username: string;
  password: string;
}

export interface DemoServer {
  port: number;
  /** Also closes every connection. */
  close(): Promise<void>;
}

/** Starts an SFTP server with one account. Throws the errors of `listen`, such as EADDRINUSE. */
export async function startDemoServer({
  root,
  port,
  hostKey,
  username,
  password,
}: DemoServerOptions): Promise<DemoServer> {
  await mkdir(root, { recursive: true });
  const realRoot = await realpath(root);
  const ssh = new ssh2.Server({ hostKeys: [hostKey] }, (connection) => {
    connection.on('authentication', (context) =>
      matches(context, username, password) ? context.accept() : context.reject(['password']),
    );
    connection.on('ready', () => serveSessions(connection, realRoot));
    // Broken connections and rejected clients are not logged.
    connection.on('error', () => undefined);
  });

  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket.once('close', () => sockets.delete(socket)));
    ssh.injectSocket(socket);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

/** Creates an ed25519 host key in OpenSSH's format. About one of 300 keys of ssh2 is malformed. */
export function newHostKey(): string {
  for (;;) {
    const { private: key } = ssh2.utils.generateKeyPairSync('ed25519');
    if (!(ssh2.utils.parseKey(key) instanceof Error)) return key;
  }
}

/** Returns the fingerprint as `ssh-keygen -l` does: `SHA256:` and base64 without padding. */
export function fingerprintOf(hostKey: string): string {
  const key = ssh2.utils.parseKey(hostKey);
  if (key instanceof Error) throw key;
  const digest = createHash('sha256').update(key.getPublicSSH()).digest('base64');
  return `SHA256:${digest.replace(/=+$/, '')}`;
}

function matches(context: AuthContext, username: string, password: string): boolean {
  return (
    context.method === 'password' &&
    same(context.username, username) &&
    same(context.password, password)
  );
}

function same(given: string, expected: string): boolean {
  const [a, b] = [given, expected].map((text) => createHash('sha256').update(text).digest()) as [
    Buffer,
    Buffer,
  ];
  return timingSafeEqual(a, b);
}

function serveSessions(connection: Connection, root: string): void {
  connection.on('session', (accept) => {
    accept().on('sftp', (acceptSftp) => serveFiles(acceptSftp(), root));
  });
}
