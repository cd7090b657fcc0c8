import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import ssh2, {
  type Attributes,
  type AuthContext,
  type Connection,
  type FileEntry,
  type ParsedKey,
  type SFTPWrapper,
} from 'ssh2';
import { fingerprint } from './server.ts';

export interface SshSignInServer {
  host: string;
  port: number;
  hostKeySha256: string;
  /**
   * Methods that clients tried, in order, with the password if they sent one. `none` asks which
   * methods are offered.
   */
  attempts: { method: string; password?: string }[];
  /** The paths of files that clients removed. */
  removed: string[];
  stop(): Promise<void>;
}

/** The path of which the server says nothing, while it answers about others. */
export const UNANSWERED = '/unanswered';

/** An entry of a listing, with the attributes that the server sends. */
export type ListedEntry = Omit<FileEntry, 'attrs'> & { attrs: Partial<Attributes> };

/**
 * The entries of a folder, in one answer or in several, the one that comes again and again, or how
 * a server refuses to list it: by which status, or with which words it refuses everything.
 */
export type Listing =
  | ListedEntry[]
  | { answers: ListedEntry[][] }
  | { endless: ListedEntry }
  | 'FAILURE'
  | 'PERMISSION_DENIED'
  | { refusal: string };

/**
 * An SSH server in this process that accepts one password by one method and records every attempt.
 * Its SFTP answers the listing of any folder with `listing`. It serves tests that OpenSSH cannot,
 * or only as root. With `packetSize`, it takes no more bytes in a message.
 */
export async function startSshSignInServer(
  method: 'password' | 'keyboard-interactive',
  password: string,
  listing: Listing = [],
  packetSize?: number,
): Promise<SshSignInServer> {
  const hostKey = makeHostKey();
  const attempts: SshSignInServer['attempts'] = [];
  const removed: string[] = [];
  const connections = new Set<Connection>();

  const server = new ssh2.Server({ hostKeys: [hostKey.pem] }, (connection) => {
    connections.add(connection);
    if (packetSize !== undefined) announcePacketSize(connection, packetSize);
    connection.on('error', () => {});
    connection.on('close', () => connections.delete(connection));
    connection.on('authentication', (context) => void authenticate(context));
    connection.on('session', (accept) =>
      accept().on('sftp', (acceptSftp) => serveFolder(acceptSftp(), listing, removed)),
    );
  });

  async function authenticate(context: AuthContext): Promise<void> {
    const sent = await passwordOf(context);
    attempts.push({ method: context.method, ...(sent === undefined ? {} : { password: sent }) });
    if (context.method === method && sent === password) context.accept();
    else context.reject([method]);
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    hostKeySha256: hostKey.sha256,
    attempts,
    removed,
    async stop() {
      for (const connection of connections) connection.end();
      server.close();
      await once(server, 'close');
    },
  };
}

function announcePacketSize(connection: Connection, packetSize: number): void {
  const { _protocol: protocol } = connection as unknown as {
    _protocol: { channelOpenConfirm(...channel: number[]): void };
  };
  const confirm = protocol.channelOpenConfirm.bind(protocol);
  protocol.channelOpenConfirm = (recipient, sender, window) =>
    confirm(recipient as number, sender as number, window as number, packetSize);
}

function makeHostKey(): { pem: string; sha256: string } {
  const { privateKey: pem } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'sec1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const key = ssh2.utils.parseKey(pem) as ParsedKey;
  return { pem, sha256: fingerprint(`${key.type} ${key.getPublicSSH().toString('base64')}`) };
}

function passwordOf(context: AuthContext): Promise<string | undefined> | string | undefined {
  if (context.method === 'password') return context.password;
  if (context.method !== 'keyboard-interactive') return undefined;
  return new Promise((answer) =>
    context.prompt([{ prompt: 'Password: ', echo: false }], ([typed]) => answer(typed)),
  );
}

function serveFolder(sftp: SFTPWrapper, listing: Listing, removed: string[]): void {
  const { STATUS_CODE } = ssh2.utils.sftp;
  let left: ListedEntry[][] = [];
  if ('refusal' in Object(listing)) {
    const { refusal } = listing as { refusal: string };
    for (const request of ['OPENDIR', 'OPEN', 'STAT', 'LSTAT'] as const)
      sftp.on(request as 'OPENDIR', (id) => {
        sftp.status(id, STATUS_CODE.PERMISSION_DENIED, refusal);
      });
    return;
  }
  sftp.on('OPENDIR', (id) => {
    left = Array.isArray(listing) ? [listing] : [];
    if ('answers' in Object(listing)) left = [...(listing as { answers: ListedEntry[][] }).answers];
    sftp.handle(id, Buffer.from('folder'));
  });
  sftp.on('READDIR', (id) => {
    if (typeof listing === 'string') return sftp.status(id, STATUS_CODE[listing]);
    if ('endless' in listing) return sftp.name(id, [listing.endless as FileEntry]);
    const answer = left.shift() ?? [];
    if (answer.length === 0) return sftp.status(id, STATUS_CODE.EOF);
    sftp.name(id, answer as FileEntry[]);
  });
  sftp.on('STAT', (id, path) => {
    if (path !== UNANSWERED) sftp.status(id, STATUS_CODE.NO_SUCH_FILE);
  });
  sftp.on('LSTAT', (id) => sftp.status(id, STATUS_CODE.NO_SUCH_FILE));
  sftp.on('REMOVE', (id, path) => {
    removed.push(path);
    sftp.status(id, STATUS_CODE.OK);
  });
  sftp.on('CLOSE', (id) => sftp.status(id, STATUS_CODE.OK));
}
