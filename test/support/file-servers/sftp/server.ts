import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../network/free-port.ts';
import { type DebianPrograms, debianPackages } from '../../programs/debian.ts';
import { canHaveMountNamespace } from '../../programs/mount-namespace.ts';
import { whyNoOwnAccount } from '../../programs/own-account.ts';
import { type ServerProcess, startProcess } from '../../programs/server-process.ts';
import { passwordHash, TEST_PASSWORD } from '../password-hash.ts';

const AS_ROOT = process.getuid?.() === 0;

export interface SftpServerOptions {
  /** Further accounts without root's rights, for tests of permissions. Root only. */
  users?: { username: string; password: string }[];
  /** Rejects every request that would change something with "Permission denied". */
  readOnly?: boolean;
  /** Requests that the server neither offers nor answers, by their names for `sftp-server -P`. */
  denied?: string[];
  /**
   * Kinds of host key to create. The server offers them all; `hostKeySha256` is that of the first.
   */
  hostKeys?: ('ed25519' | 'rsa' | 'ecdsa')[];
  /** Lines added to sshd_config, before the others, so they override them. */
  extraConfig?: string;
  /** Bytes of a separate file system at `smallDisk`, with room for 18 names. Root only. */
  smallDiskBytes?: number;
}

export interface SftpServer {
  host: string;
  port: number;
  /**
   * The account that runs the tests; for root another name of it, so that it can have a password.
   */
  username: string;
  /**
   * Undefined if passwords are unavailable: OpenSSH checks them against /etc/shadow, which requires
   * root.
   */
  password: string | undefined;
  /** Signs `username` in, like each of these keys. The three servers before do not know it. */
  privateKey: string;
  /** The same at every server of this process. */
  protectedKey: { privateKey: string; passphrase: string };
  /** In the form of `ssh-keygen -l`. */
  hostKeySha256: string;
  /** Those of all host keys, in the order of `hostKeys`. */
  hostKeysSha256: string[];
  /** Temporary folder for files: remote paths are absolute paths below it. */
  root: string;
  /** Folder on the small file system; only the server sees it. */
  smallDisk: string;
  /** An empty file system beside it that takes no change. */
  readOnlyDisk: string;
  readonly pid: number;
  /**
   * Ends the server and every session, like a machine that goes down. Files, keys and port stay.
   */
  down(): Promise<void>;
  /** Starts it again on the same port, with the same keys. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/**
 * Null if a real OpenSSH server can run here, else the reason. Tests that need it are skipped with
 * the reason.
 */
export async function whyNoSftpServer(): Promise<string | null> {
  const openssh = await debianPackages(['openssh-server'], ['/usr/sbin/sshd']);
  if (!openssh.available) return openssh.reason;
  if (!AS_ROOT) return whyNoOwnAccount();
  if (canHaveMountNamespace()) return null;
  return 'OpenSSH as root needs its own mount namespace, but unshare -m fails here';
}

/**
 * Starts a real OpenSSH server with `internal-sftp` on loopback. Throws if `whyNoSftpServer`
 * returns a reason.
 */
export async function startSftpServer(options: SftpServerOptions = {}): Promise<SftpServer> {
  const openssh = await debianPackages(['openssh-server'], ['/usr/sbin/sshd']);
  if (!openssh.available) throw new Error(openssh.reason);
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'waybill-sftp-')));
  chmodSync(home, 0o755);
  const root = join(home, 'root');
  const smallDisk = join(root, 'small-disk');
  const readOnlyDisk = join(root, 'read-only');
  mkdirSync(root);
  if (options.smallDiskBytes) for (const disk of [smallDisk, readOnlyDisk]) mkdirSync(disk);
  const username = AS_ROOT ? 'waybill' : userInfo().username;
  const password = AS_ROOT ? TEST_PASSWORD : undefined;
  const keys = makeKeys(home, options.hostKeys ?? ['ed25519'], openssh.env);
  if (password !== undefined) writeAccounts(home, username, password, options);

  let port = await freePort();
  let sshd = await start();
  for (let attempt = 1; !sshd; attempt++) {
    if (attempt === 5)
      throw new Error(`sshd does not start:\n${readFileSync(join(home, 'sshd.log'), 'utf8')}`);
    port = await freePort();
    sshd = await start();
  }

  /** Null if another program took the port. */
  async function start(): Promise<ServerProcess | null> {
    writeFileSync(join(home, 'sshd_config'), configuration(home, port, options));
    const started = run(home, openssh as DebianPrograms, options.smallDiskBytes);
    return (await started.ready(() => greets(port))) ? started : null;
  }

  const down = async () => sshd?.kill();

  return {
    host: '127.0.0.1',
    port,
    username,
    password,
    ...keys,
    root,
    smallDisk,
    readOnlyDisk,
    get pid() {
      return sshd?.child.pid as number;
    },
    down,
    async restart() {
      await down();
      sshd = await start();
      if (!sshd) throw new Error(`port ${port} was taken while sshd was down`);
    },
    async stop() {
      await down();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function makeKeys(
  home: string,
  kinds: NonNullable<SftpServerOptions['hostKeys']>,
  env: NodeJS.ProcessEnv,
) {
  const turn = servers++ % DISTINCT;
  const own = keyPair(`user ${turn}`, 'ed25519', env);
  const locked = keyPair('protected', 'ed25519', env, PASSPHRASE);
  writeFileSync(join(home, 'authorized_keys'), own.publicKey + locked.publicKey);
  const hostKeys = kinds.map((kind) => {
    const pair = keyPair(`host ${turn} ${kind}`, kind, env);
    writeFileSync(join(home, `host_${kind}`), pair.privateKey, { mode: 0o600 });
    return pair.publicKey;
  });
  return {
    privateKey: own.privateKey,
    protectedKey: { privateKey: locked.privateKey, passphrase: PASSPHRASE },
    hostKeySha256: fingerprint(hostKeys[0] as string),
    hostKeysSha256: hostKeys.map(fingerprint),
  };
}

interface KeyPair {
  privateKey: string;
  publicKey: string;
}

/** So many servers in a row have different keys. Later ones get the same keys again. */
const DISTINCT = 4;
const PASSPHRASE = randomBytes(9).toString('hex');
let servers = 0;
const keyPairs = new Map<string, KeyPair>();

/** Returns the key pair of this name. ssh-keygen makes it when it is first needed. */
function keyPair(name: string, kind: string, env: NodeJS.ProcessEnv, passphrase = ''): KeyPair {
  const pair = keyPairs.get(name) ?? newKeyPair(kind, env, passphrase);
  keyPairs.set(name, pair);
  return pair;
}

function newKeyPair(kind: string, env: NodeJS.ProcessEnv, passphrase: string): KeyPair {
  const folder = mkdtempSync(join(tmpdir(), 'waybill-key-'));
  const file = join(folder, 'key');
  try {
    execFileSync('ssh-keygen', ['-q', '-t', kind, '-N', passphrase, '-C', '', '-f', file], { env });
    return {
      privateKey: readFileSync(file, 'utf8'),
      publicKey: readFileSync(`${file}.pub`, 'utf8'),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Returns the fingerprint of a public key in OpenSSH's one-line form, as `ssh-keygen -l` prints it.
 */
export function fingerprint(publicKey: string): string {
  const blob = Buffer.from(publicKey.split(' ')[1] as string, 'base64');
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
}

/**
 * Writes copies of the system's accounts with ours added. They cover the real ones in the server's
 * mount namespace.
 */
function writeAccounts(
  home: string,
  username: string,
  password: string,
  options: SftpServerOptions,
): void {
  const accounts = [
    { username, password, ids: '0:0' },
    ...(options.users ?? []).map((user, index) => ({ ...user, ids: `${61_000 + index}:61000` })),
  ];
  const entries = [
    'sshd:x:60999:65534::/run/sshd:/usr/sbin/nologin',
    ...accounts.map((account) => `${account.username}:x:${account.ids}::/tmp:/bin/sh`),
  ];
  const hashes = accounts.map(
    (account) => `${account.username}:${passwordHash(account.password)}:19000:0:99999:7:::`,
  );
  const lines = (file: string) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line && !line.startsWith('sshd:'));
  writeFileSync(join(home, 'passwd'), [...lines('/etc/passwd'), ...entries, ''].join('\n'));
  writeFileSync(join(home, 'shadow'), [...lines('/etc/shadow'), ...hashes, ''].join('\n'), {
    mode: 0o600,
  });
}

function configuration(
  home: string,
  port: number,
  { hostKeys = ['ed25519'], readOnly, denied, extraConfig }: SftpServerOptions,
): string {
  return `
    ${extraConfig ?? ''}
    Port ${port}
    ListenAddress 127.0.0.1
    ${hostKeys.map((kind) => `HostKey ${join(home, `host_${kind}`)}`).join('\n')}
    PidFile none
    UsePAM no
    PermitRootLogin yes
    KbdInteractiveAuthentication no
    AuthorizedKeysFile ${join(home, 'authorized_keys')}
    StrictModes no
    MaxStartups 200:30:400
    MaxSessions 100
    UseDNS no
    Subsystem sftp internal-sftp${readOnly ? ' -R' : ''}${denied ? ` -P ${denied.join(',')}` : ''} -d ${join(home, 'root')}
  `;
}

// As root, OpenSSH requires a user `sshd` and the folder /run/sshd. Both, and our accounts, exist
// only in the server's own mount namespace.
const IN_NAMESPACE = `
  mount --bind "$1/passwd" /etc/passwd
  mount --bind "$1/shadow" /etc/shadow
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir /run/sshd
  if [ "$2" -gt 0 ]; then
    mount -t tmpfs -o size="$2",nr_inodes=20,mode=777 tmpfs "$1/root/small-disk"
    mount -t tmpfs -o ro tmpfs "$1/root/read-only"
  fi
  shift 2
  exec "$@"
`;

/**
 * Lets sshd keep the memory that it frees. It frees and allocates its buffers again and again, and
 * by default each time returns the memory to the kernel, which then clears every page again.
 */
const KEEP_MEMORY = {
  MALLOC_TOP_PAD_: String(1 << 20),
  MALLOC_TRIM_THRESHOLD_: String(1 << 28),
  MALLOC_MMAP_THRESHOLD_: String(1 << 30),
};

function run(home: string, openssh: DebianPrograms, smallDiskBytes = 0): ServerProcess {
  const sshd = [
    openssh.path('/usr/sbin/sshd'),
    '-D',
    '-f',
    join(home, 'sshd_config'),
    '-E',
    join(home, 'sshd.log'),
  ];
  const inNamespace = AS_ROOT
    ? ['unshare', '-m', 'sh', '-euc', IN_NAMESPACE, 'namespace', home, String(smallDiskBytes)]
    : [];
  return startProcess([...inNamespace, ...sshd], { env: { ...openssh.env, ...KEEP_MEMORY } });
}

async function greets(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    const [greeting] = await once(socket, 'data');
    return String(greeting).startsWith('SSH-');
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
