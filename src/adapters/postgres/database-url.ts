/*
 * Reads from a URL of Postgres how its connections use TLS. The names and values are those of
 * Postgres's own programs. The driver reads no files, and would send what it does not know to the
 * server, as settings of the session.
 */
import { readFileSync } from 'node:fs';
import { checkServerIdentity, type PeerCertificate, type SecureContextOptions } from 'node:tls';
import { isPort } from '../../domain/uri.ts';

/** The value of DATABASE_URL cannot be used. The message says what to do. */
export class DatabaseUrlError extends Error {
  override readonly name = 'DatabaseUrlError';
}

/** What to do about a URL that cannot be read. */
export const HOW_TO_WRITE =
  'write postgres://USER:PASSWORD@HOST:PORT/DATABASE, and every special character of user and ' +
  'password as %XX';

const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
/** These names of files are no settings of the driver. */
const FILES = ['sslrootcert', 'sslcert', 'sslkey'] as const;

/** What the driver gets: false for no TLS, and `prefer` for TLS if the server has it. */
export type Tls =
  | false
  | 'prefer'
  | (SecureContextOptions & {
      rejectUnauthorized: boolean;
      checkServerIdentity?: (host: string, certificate: PeerCertificate) => Error | undefined;
    });

/**
 * Returns the URL without what it says about TLS, and what that means. Without `sslmode` there is
 * no TLS. Throws DatabaseUrlError for a value that has no meaning and for a file that cannot be
 * read.
 */
export function readDatabaseUrl(url: string): { url: string; tls: Tls } {
  const [base = '', query = ''] = url.split('?', 2);
  const parameters = new URLSearchParams(query);
  const take = (name: string) => {
    const value = parameters.get(name);
    parameters.delete(name);
    return value || null;
  };
  const given = take('sslmode');
  const [root, cert, key] = FILES.map(take);
  const rest = parameters.toString();
  // A slash in the password ends the address. The rest of the password would name the host.
  if (base.slice(base.indexOf('/', base.indexOf('://') + 3)).includes('@'))
    throw new DatabaseUrlError(`DATABASE_URL has an @ after its address: ${HOW_TO_WRITE}`);
  const addresses = addressesOf(base);
  addresses.forEach(requirePort);
  return {
    url: rest === '' ? base : `${base}?${rest}`,
    tls: tlsOf(
      given ?? (root === 'system' ? 'verify-full' : 'disable'),
      { root: root ?? null, cert: cert ?? null, key: key ?? null },
      addresses.map(hostOf),
    ),
  };
}

/** The driver would end the process when it opens a connection to a port that cannot exist. */
function requirePort(address: string): void {
  const port = PORT.exec(address)?.[1];
  if (port !== undefined && !isPort(Number(port)))
    throw new DatabaseUrlError(
      `DATABASE_URL has a port that is no whole number from 1 to 65535: ${HOW_TO_WRITE}`,
    );
}

interface Files {
  root: string | null;
  cert: string | null;
  key: string | null;
}

function tlsOf(mode: string, { root, cert, key }: Files, hosts: string[]): Tls {
  if (!MODES.some((each) => each === mode))
    throw new DatabaseUrlError(
      `DATABASE_URL has an unknown sslmode: use one of ${MODES.join(', ')}`,
    );
  if (mode === 'disable' || mode === 'allow' || mode === 'prefer') {
    if (root !== null || cert !== null || key !== null)
      throw new DatabaseUrlError(
        'DATABASE_URL has sslrootcert, sslcert or sslkey without effect: add sslmode=verify-full',
      );
    return mode === 'disable' ? false : 'prefer';
  }
  if ((cert === null) !== (key === null))
    throw new DatabaseUrlError('DATABASE_URL needs both sslcert and sslkey, or neither');
  const files: SecureContextOptions = {
    ...(root === null || root === 'system' ? {} : { ca: read('sslrootcert', root) }),
    ...(cert === null || key === null
      ? {}
      : { cert: read('sslcert', cert), key: read('sslkey', key) }),
  };
  if (mode === 'require' && root === null) return { ...files, rejectUnauthorized: false };
  const isFull = mode === 'verify-full';
  return {
    ...files,
    rejectUnauthorized: true,
    // Node.js does not know the name if it is an address, because the driver opens the connection.
    checkServerIdentity: (_host, certificate) => (isFull ? faultOf(hosts, certificate) : undefined),
  };
}

/** Returns why a certificate is of none of these hosts. */
function faultOf(hosts: string[], certificate: PeerCertificate): Error | undefined {
  const faults = hosts.map((host) => checkServerIdentity(host, certificate));
  return faults.includes(undefined) ? undefined : faults[0];
}

function read(name: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new DatabaseUrlError(
      `DATABASE_URL names a file in ${name} that cannot be read: ${(error as Error).message}`,
    );
  }
}

const PORT = /:(\d+)$/;

/** Returns the hosts of a URL with their ports. There may be several, with commas. */
function addressesOf(base: string): string[] {
  const authority = base.replace(/^\w+:\/\//, '').split('/', 1)[0] as string;
  return authority.slice(authority.lastIndexOf('@') + 1).split(',');
}

function hostOf(address: string): string {
  return address.replace(PORT, '').replace(/^\[(.*)\]$/, '$1');
}
