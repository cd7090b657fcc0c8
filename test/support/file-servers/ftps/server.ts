import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { createCertificates, type TestCertificates } from '../../network/certificates.ts';
import { freePort } from '../../network/free-port.ts';
import { type DebianPrograms, debianPackages } from '../../programs/debian.ts';
import { canHaveMountNamespace } from '../../programs/mount-namespace.ts';
import { whyNoOwnAccount } from '../../programs/own-account.ts';
import { descendants } from '../../programs/process-tree.ts';
import { type ServerProcess, startProcess } from '../../programs/server-process.ts';
import { passwordHash, TEST_PASSWORD } from '../password-hash.ts';
import { proftpdSettings } from '../proftpd.ts';

const AS_ROOT = process.getuid?.() === 0;

export type FtpsServerKind = 'proftpd' | 'vsftpd';

export interface FtpsServerOptions {
  kind: FtpsServerKind;
  /** explicit: every session must send `AUTH TLS`. implicit: TLS from the first byte. */
  tls: 'explicit' | 'implicit';
  /** The server's certificate; clients should accept only `valid`. */
  certificate?: Exclude<keyof TestCertificates, 'caPem'>;
  /** Loopback address to listen on; 127.0.0.1 by default. proftpd only. */
  host?: string;
  /** Rejects every command that would change something with 550. */
  readOnly?: boolean;
  /** Lines added to the server's configuration. They override the others. */
  extraConfig?: string;
  /** Bytes of a separate small file system at `smallDisk`. Root only. */
  smallDiskBytes?: number;
}

export interface FtpsServer {
  host: string;
  port: number;
  username: string;
  password: string;
  /** The authority of its certificate. */
  caPem: string;
  /** Temporary folder for files. */
  root: string;
  /** Folder on the small file system; only the server sees it. */
  smallDisk: string;
  /** Processes of its sessions. A session without a process no longer counts for its limits. */
  readonly sessions: number;
  /** Returns how clients name the file that is `relative` to `root`. */
  remotePath(relative: string): string;
  /** The server's output so far, including all commands and answers. */
  log(): string;
  /**
   * Ends the server and every session, like a machine that goes down. Files, accounts and port
   * stay.
   */
  down(): Promise<void>;
  /** Starts it again on the same port. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

const PACKAGES = {
  proftpd: [
    ['proftpd-core', 'proftpd-mod-crypto'],
    ['/usr/sbin/proftpd', '/usr/lib/proftpd/mod_tls.so'],
  ],
  vsftpd: [['vsftpd'], ['/usr/sbin/vsftpd']],
} satisfies Record<FtpsServerKind, [packages: string[], programs: string[]]>;

/**
 * Null if this server can run here, else the reason. Tests that need it are skipped with the
 * reason.
 */
export async function whyNoFtpsServer(kind: FtpsServerKind): Promise<string | null> {
  if (kind === 'vsftpd' && !AS_ROOT) return 'vsftpd runs as root only';
  const programs = await debianPackages(...(PACKAGES[kind] as [string[], string[]]));
  if (!programs.available) return programs.reason;
  if (kind === 'proftpd') return AS_ROOT ? null : whyNoOwnAccount();
  if (canHaveMountNamespace()) return null;
  return 'vsftpd needs its own mount namespace, but unshare -m fails here';
}

/**
 * Starts a real FTP server on loopback. It requires TLS for commands and data, and data connections
 * that resume the session of their control connection. Throws if `whyNoFtpsServer` returns a
 * reason.
 */
export async function startFtpsServer(options: FtpsServerOptions): Promise<FtpsServer> {
  const reason = await whyNoFtpsServer(options.kind);
  const programs = await debianPackages(...(PACKAGES[options.kind] as [string[], string[]]));
  if (reason !== null || !programs.available) throw new Error(reason ?? 'unavailable');
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'waybill-ftps-')));
  chmodSync(home, 0o755);
  const root = join(home, 'root');
  const smallDisk = join(root, 'small-disk');
  mkdirSync(options.smallDiskBytes ? smallDisk : root, { recursive: true });
  const username = AS_ROOT ? 'waybill' : userInfo().username;
  const password = TEST_PASSWORD;
  const host = options.host ?? '127.0.0.1';
  const certificates = await createCertificates();
  const { cert, key } = certificates[options.certificate ?? 'valid'];
  writeFileSync(join(home, 'cert.pem'), cert);
  writeFileSync(join(home, 'key.pem'), key, { mode: 0o600 });
  writeAccounts(home, username, password);

  const log = () =>
    ['stderr.log', 'server.log', 'tls.log']
      .map((name) => join(home, name))
      .filter(existsSync)
      .map((file) => readFileSync(file, 'utf8'))
      .join('');

  let port = await freePort();
  let server = await start();
  for (let attempt = 1; !server; attempt++) {
    if (attempt === 5) {
      const logged = log();
      rmSync(home, { recursive: true, force: true });
      throw new Error(`${options.kind} does not start:\n${logged}`);
    }
    port = await freePort();
    server = await start();
  }

  /** Null if another program took the port. */
  async function start(): Promise<ServerProcess | null> {
    const file = join(home, 'server.conf');
    const configuration = options.kind === 'proftpd' ? proftpdConfiguration : vsftpdConfiguration;
    writeFileSync(file, configuration(home, port, options, programs as DebianPrograms));
    const complaints = openSync(join(home, 'stderr.log'), 'a');
    const started = startProcess(command(file), {
      env: (programs as DebianPrograms).env,
      stdio: ['ignore', complaints, complaints],
    });
    closeSync(complaints);
    // The session that was greeted still counts for the server's limits until it has ended.
    const isReady = async () => (await greets(host, port, options.tls)) && untilNoSession(started);
    return (await started.ready(isReady)) ? started : null;
  }

  async function untilNoSession({ child }: ServerProcess): Promise<true> {
    while (descendants(child.pid as number).length > 0) await sleep(5);
    return true;
  }

  function command(file: string): string[] {
    const { path } = programs as DebianPrograms;
    const plain =
      options.kind === 'proftpd'
        ? [path('/usr/sbin/proftpd'), '-n', '-c', file]
        : [path('/usr/sbin/vsftpd'), file];
    if (options.kind === 'proftpd' && !options.smallDiskBytes) return plain;
    return [
      'unshare',
      '-m',
      'sh',
      '-euc',
      IN_NAMESPACE,
      'namespace',
      home,
      String(options.smallDiskBytes ?? 0),
      ...plain,
    ];
  }

  const down = async () => server?.kill();
  return {
    host,
    port,
    username,
    password,
    caPem: certificates.caPem,
    root,
    smallDisk,
    get sessions() {
      return descendants(server?.child.pid as number).length;
    },
    remotePath: (relative) => join(root, relative),
    log,
    down,
    async restart() {
      await down();
      server = await start();
      if (!server) throw new Error(`port ${port} was taken while ${options.kind} was down`);
    },
    async stop() {
      await down();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/**
 * Writes our account under another name, so that it can have a password: a file for proftpd, and
 * for vsftpd one that covers the system's.
 */
function writeAccounts(home: string, username: string, password: string): void {
  const hash = passwordHash(password);
  const account = (secret: string) =>
    `${username}:${secret}:${process.getuid?.()}:${process.getgid?.()}::${join(home, 'root')}:/bin/sh\n`;
  writeFileSync(join(home, 'accounts'), account(hash), { mode: 0o600 });
  if (!AS_ROOT) return;
  writeFileSync(join(home, 'passwd'), readFileSync('/etc/passwd', 'utf8') + account('x'));
  writeFileSync(
    join(home, 'shadow'),
    `${readFileSync('/etc/shadow', 'utf8')}${username}:${hash}:19000:0:99999:7:::\n`,
    { mode: 0o600 },
  );
  mkdirSync(join(home, 'pam.d'));
  writeFileSync(
    join(home, 'pam.d', 'vsftpd'),
    'auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n',
  );
  mkdirSync(join(home, 'empty'));
}

// vsftpd knows only the system's accounts. Ours, and its password check, exist in the server's own
// mount namespace.
const IN_NAMESPACE = `
  mount --bind "$1/passwd" /etc/passwd
  mount --bind "$1/shadow" /etc/shadow
  mount --bind "$1/pam.d" /etc/pam.d
  if [ "$2" -gt 0 ]; then mount -t tmpfs -o size="$2",mode=777 tmpfs "$1/root/small-disk"; fi
  shift 2
  exec "$@"
`;

type Configuration = (
  home: string,
  port: number,
  options: FtpsServerOptions,
  programs: DebianPrograms,
) => string;

// If a setting occurs twice, proftpd uses the first line and vsftpd the last.
const proftpdConfiguration: Configuration = (
  home,
  port,
  { host = '127.0.0.1', tls, readOnly, extraConfig },
  programs,
) => `
ModulePath "${programs.path('/usr/lib/proftpd')}"
LoadModule mod_tls.c
${extraConfig ?? ''}
${proftpdSettings({ home, host, port, systemLog: join(home, 'server.log') })}
LogFormat answers "%r -> %s %S"
ExtendedLog "${join(home, 'server.log')}" ALL answers
TLSEngine on
TLSLog "${join(home, 'tls.log')}"
TLSProtocol TLSv1.2 TLSv1.3
TLSECCertificateFile "${join(home, 'cert.pem')}"
TLSECCertificateKeyFile "${join(home, 'key.pem')}"
TLSRequired on
TLSRenegotiate none
${tls === 'implicit' ? 'TLSOptions UseImplicitSSL' : ''}
${readOnly ? '<Limit WRITE>\nDenyAll\n</Limit>' : ''}
`;

const vsftpdConfiguration: Configuration = (home, port, { tls, readOnly, extraConfig }) => `
listen=YES
listen_address=127.0.0.1
listen_port=${port}
background=NO
anonymous_enable=NO
local_enable=YES
write_enable=${readOnly ? 'NO' : 'YES'}
local_umask=022
secure_chroot_dir=${join(home, 'empty')}
pam_service_name=vsftpd
seccomp_sandbox=NO
use_localtime=NO
mdtm_write=YES
max_clients=0
max_per_ip=0
xferlog_enable=YES
log_ftp_protocol=YES
vsftpd_log_file=${join(home, 'server.log')}
ssl_enable=YES
implicit_ssl=${tls === 'implicit' ? 'YES' : 'NO'}
force_local_logins_ssl=YES
force_local_data_ssl=YES
require_ssl_reuse=YES
ssl_tlsv1=YES
ssl_ciphers=HIGH
rsa_cert_file=${join(home, 'cert.pem')}
rsa_private_key_file=${join(home, 'key.pem')}
${extraConfig ?? ''}
`;

async function greets(host: string, port: number, tls: 'explicit' | 'implicit'): Promise<boolean> {
  const socket =
    tls === 'explicit'
      ? connect({ host, port })
      : connectTls({ host, port, rejectUnauthorized: false });
  try {
    const [greeting] = await once(socket, 'data');
    return String(greeting).startsWith('220');
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
