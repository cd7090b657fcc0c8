/*
 * SFTP servers other than OpenSSH, each an implementation of its own. Files are below `root`.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
} from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectionTimeouts } from '../../../../src/adapters/files/connection-timeouts.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { freePort } from '../../network/free-port.ts';
import { type DebianPrograms, debianPackages } from '../../programs/debian.ts';
import { whyNoOwnAccount } from '../../programs/own-account.ts';
import { type ServerProcess, startProcess } from '../../programs/server-process.ts';
import { passwordHash, TEST_PASSWORD } from '../password-hash.ts';
import { proftpdSettings } from '../proftpd.ts';
import { endpointOn } from './endpoint.ts';

const AS_ROOT = process.getuid?.() === 0;
const PYTHON_MODULES = '/usr/lib/python3/dist-packages';
const ASYNCSSH = join(import.meta.dirname, 'asyncssh-server.py');

/**
 * - `proftpd`: mod_sftp, in C.
 * - `rclone`: in Go. It truncates each file that is opened for writing.
 * - `rclone-stream`: the same, which stores what it gets at once. It writes a file from its start
 *   only, and shows it when it is closed. Servers in front of object stores do the same.
 * - `asyncssh`: in Python. It says nothing about a file but its size and times.
 * - `asyncssh-any-case`: the same, and ignores the letter case of names.
 * - `asyncssh-closed`: the same, and shows a new file when it is closed.
 */
export type OtherSftpServerKind =
  | 'proftpd'
  | 'rclone'
  | 'rclone-stream'
  | 'asyncssh'
  | 'asyncssh-any-case'
  | 'asyncssh-closed';

export interface OtherSftpServer {
  host: string;
  port: number;
  username: string;
  password: string;
  hostKeySha256: string;
  /** Temporary folder for files. */
  root: string;
  /** Returns how clients name the file that is `relative` to `root`. */
  remotePath(relative: string): string;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

const PACKAGES: Record<'proftpd' | 'rclone' | 'asyncssh', [string[], string[]]> = {
  proftpd: [
    ['proftpd-core', 'proftpd-mod-crypto'],
    ['/usr/sbin/proftpd', '/usr/lib/proftpd/mod_sftp.so'],
  ],
  rclone: [['rclone'], ['/usr/bin/rclone']],
  asyncssh: [['python3-asyncssh'], [`${PYTHON_MODULES}/asyncssh/__init__.py`]],
};

function programs(kind: OtherSftpServerKind) {
  return debianPackages(...PACKAGES[kind.split('-')[0] as keyof typeof PACKAGES]);
}

/** Null if this server can run here, else the reason. */
export async function whyNoOtherSftpServer(kind: OtherSftpServerKind): Promise<string | null> {
  for (const found of [await programs(kind), await debianPackages(['openssh-client'], KEYGEN)])
    if (!found.available) return found.reason;
  return kind === 'proftpd' && !AS_ROOT ? whyNoOwnAccount() : null;
}

const KEYGEN = ['/usr/bin/ssh-keygen'];

/**
 * Starts a real server on loopback. `extraConfig` has further lines for ProFTPD. Throws if
 * `whyNoOtherSftpServer` returns a reason.
 */
export async function startOtherSftpServer(
  kind: OtherSftpServerKind,
  extraConfig = '',
): Promise<OtherSftpServer> {
  const found = await programs(kind);
  if (!found.available) throw new Error(found.reason);
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'waybill-other-sftp-')));
  chmodSync(home, 0o755);
  const root = join(home, 'root');
  mkdirSync(root);
  const hostKeySha256 = await makeHostKey(home);
  const command = COMMANDS[kind];
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    const server = startProcess(await command(found, home, port, kind, extraConfig), {
      env: { ...found.env, HOME: home, PYTHONPATH: found.path(PYTHON_MODULES) },
      stdio: 'ignore',
    });
    if (await server.ready(() => greets(port)))
      return {
        host: '127.0.0.1',
        port,
        username: 'waybill',
        password: TEST_PASSWORD,
        hostKeySha256,
        root,
        remotePath: (relative) => join(kind === 'proftpd' ? root : '/', relative),
        stop: () => stop(server, home),
      };
    if (attempt === 5) throw new Error(`${kind} does not start`);
  }
}

async function stop(server: ServerProcess, home: string): Promise<void> {
  await server.kill();
  rmSync(home, { recursive: true, force: true });
}

/** ProFTPD reads no keys in the newer format of OpenSSH. */
async function makeHostKey(home: string): Promise<string> {
  const openssh = await debianPackages(['openssh-client'], KEYGEN);
  if (!openssh.available) throw new Error(openssh.reason);
  const file = join(home, 'host_key');
  const type = ['-t', 'rsa', '-b', '2048', '-m', 'PEM'];
  execFileSync(openssh.path('/usr/bin/ssh-keygen'), ['-q', ...type, '-N', '', '-f', file], {
    env: openssh.env,
  });
  const [, key = ''] = readFileSync(`${file}.pub`, 'utf8').split(' ');
  const digest = createHash('sha256').update(Buffer.from(key, 'base64')).digest('base64');
  return `SHA256:${digest.replace(/=+$/, '')}`;
}

async function rclone(
  { path }: DebianPrograms,
  home: string,
  port: number,
  kind: OtherSftpServerKind,
): Promise<string[]> {
  const cache = kind === 'rclone' ? 'writes' : 'off';
  return [
    path('/usr/bin/rclone'),
    ...['serve', 'sftp', join(home, 'root'), '--addr', `127.0.0.1:${port}`],
    ...['--user', 'waybill', '--pass', TEST_PASSWORD, '--key', join(home, 'host_key')],
    ...['--vfs-cache-mode', cache, '--cache-dir', join(home, 'cache')],
    // The tests look into the folder, and change it.
    ...['--vfs-write-back', '0s', '--dir-cache-time', '0s'],
  ];
}

async function asyncssh(
  { path }: DebianPrograms,
  home: string,
  port: number,
  kind: OtherSftpServerKind,
): Promise<string[]> {
  const files = [join(home, 'root'), join(home, 'host_key')];
  const rules = kind === 'asyncssh' ? [] : [kind.slice('asyncssh-'.length)];
  return [python(path), ASYNCSSH, String(port), ...files, TEST_PASSWORD, ...rules];
}

/** The Python that the modules of Debian's packages are for. */
function python(path: DebianPrograms['path']): string {
  return existsSync('/usr/bin/python3') ? '/usr/bin/python3' : path('/usr/bin/python3');
}

async function proftpd(
  { path }: DebianPrograms,
  home: string,
  port: number,
  _kind: OtherSftpServerKind,
  extraConfig: string,
): Promise<string[]> {
  const ids = `${process.getuid?.()}:${process.getgid?.()}`;
  const account = `waybill:${passwordHash(TEST_PASSWORD)}:${ids}::${join(home, 'root')}:/bin/sh\n`;
  await writeFile(join(home, 'accounts'), account, { mode: 0o600 });
  const configuration = `
ModulePath "${path('/usr/lib/proftpd')}"
LoadModule mod_sftp.c
${proftpdSettings({ home, host: '127.0.0.1', port, systemLog: 'none' })}
SFTPEngine on
SFTPHostKey "${join(home, 'host_key')}"
SFTPAuthMethods password
${extraConfig}
`;
  await writeFile(join(home, 'server.conf'), configuration);
  return [path('/usr/sbin/proftpd'), '-n', '-c', join(home, 'server.conf')];
}

async function greets(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port });
  try {
    const [greeting] = await once(socket, 'data');
    return String(greeting).startsWith('SSH-2.0');
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

const COMMANDS: Record<OtherSftpServerKind, typeof proftpd> = {
  proftpd,
  rclone,
  'rclone-stream': rclone,
  asyncssh,
  'asyncssh-any-case': asyncssh,
  'asyncssh-closed': asyncssh,
};

/** Returns an endpoint for all files of the server, which may be reached by another port. */
export function otherSftpEndpoint(
  server: OtherSftpServer,
  port = server.port,
  timeouts: Partial<ConnectionTimeouts> = {},
): FileEndpoint {
  return endpointOn(server, { settings: { port }, timeouts });
}
