import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { EventStoreDBClient } from '@eventstore/db-client';
import { isPort } from '../../../domain/uri.ts';
import { EventStoreSettingsError } from '../port.ts';

/** The address of the event store and the sign-in. Do not set a value both here and in the URL. */
export interface EventStoreDbSignIn {
  /** `esdb://...` or `esdb+discover://...`; it may contain the user name and password. */
  url: string;
  user?: string | null;
  password?: string | null;
  /** Path of a PEM file with the CA that signed the certificates of the nodes. */
  caFile?: string | null;
}

/**
 * The client notices a dead peer after at most the sum of both. A shorter interval makes the client
 * print a warning.
 */
const KEEPALIVE = { keepAliveInterval: 10_000, keepAliveTimeout: 2_000 };

/**
 * Seconds that a new client waits for what one node says about the cluster, before it asks the next
 * one. The default of 5 s is longer than a try: a node that accepts connections and says nothing
 * would use up the tries of a call.
 */
const GOSSIP = { gossipTimeout: 2 };

/** Options that the client knows. For any other, it prints the whole URL, password included. */
const OPTIONS = [
  'connectionName',
  'defaultDeadline',
  'discoveryInterval',
  'gossipTimeout',
  'keepAliveInterval',
  'keepAliveTimeout',
  'maxDiscoverAttempts',
  'nodePreference',
  'tls',
  'tlsCaFile',
  'userCertFile',
  'userKeyFile',
];

const HOW_TO_WRITE =
  'write esdb://HOST:PORT,HOST:PORT?tls=true, and every special character of user and ' +
  'password as %XX';

/** Finds the user name and password as the client does: up to the first @, whatever is before. */
const SIGN_IN = /^[^:]+:\/\/([^:]+:[^@]+)@/;
const HEAD = /^(esdb(?:\+discover)?:\/\/)([^@/?]*@)?([^/?]*)\/?/i;
const NODE = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::(\d+))?$/i;

/**
 * Returns the connection string for the client. Throws EventStoreSettingsError if the client rejects
 * it, or if the CA file has no certificate. The message repeats no part of the string, because it
 * may hold a password.
 */
export function clientUrl({ url, user, password, caFile }: EventStoreDbSignIn): string {
  const signIn =
    user && password ? `${encodeURIComponent(user)}:${encodeURIComponent(password)}@` : null;
  const signedIn =
    signIn === null ? url : url.replace(HEAD, (_, scheme, __, hosts) => scheme + signIn + hosts);
  requireAddress(signedIn);
  if (!hasKnownOptions(signedIn)) {
    throw new EventStoreSettingsError(
      `EVENTSTORE_URL has an unknown option. Known options: ${OPTIONS.join(', ')}`,
    );
  }
  if (caFile) requireCertificate(caFile);
  requireNodes(signedIn);
  const complete = withOptions(signedIn, {
    ...(caFile ? { tlsCaFile: encodeURIComponent(caFile) } : {}),
    ...KEEPALIVE,
    ...GOSSIP,
  });
  try {
    EventStoreDBClient.connectionString(complete);
  } catch (error) {
    // For a URL that it can't read, the client's error quotes the URL. So it is not the cause.
    const unread = error instanceof Error && 'connectionString' in error;
    throw new EventStoreSettingsError(
      unread
        ? `EVENTSTORE_URL is not a connection string: ${HOW_TO_WRITE}`
        : `The event store can't be used: ${(error as Error).message}`,
    );
  }
  return complete;
}

/** Returns the scheme and the hosts of a URL that `clientUrl` accepts. */
export function addressOf(url: string): string {
  const [, scheme = '', , hosts = ''] = HEAD.exec(url) ?? [];
  return scheme + hosts;
}

/** Returns the URL of one node of a cluster; everything else is as in `url`. */
export function urlOfNode(url: string, node: { address: string; port: number }): string {
  return url.replace(HEAD, (_, __, signIn = '') => `esdb://${signIn}${node.address}:${node.port}`);
}

/** Without a certificate in it, the client would wait for a server that it never accepts. */
function requireCertificate(caFile: string): void {
  try {
    const pem = readFileSync(caFile);
    if (!pem.includes('-----BEGIN ')) throw new Error('it has no certificate in PEM');
    createSecureContext({ ca: pem });
  } catch (error) {
    throw new EventStoreSettingsError(
      `WAYBILL_EVENTSTORE_CA_FILE names a file that cannot be used: ${(error as Error).message}`,
    );
  }
}

/**
 * For the client, a password may contain a slash, a question mark or a second @. Everything else
 * that reads the URL would take a part of it for the address, and show or keep it.
 */
function requireAddress(url: string): void {
  const signIn = SIGN_IN.exec(url)?.[1] ?? '';
  if (/[/?]/.test(signIn) || HEAD.exec(url)?.[3]?.includes('@'))
    throw new EventStoreSettingsError(`EVENTSTORE_URL has an @ after its address: ${HOW_TO_WRITE}`);
}

/** The client would wait for a host or a port that cannot exist. */
function requireNodes(url: string): void {
  for (const node of HEAD.exec(url)?.[3]?.split(',') ?? []) {
    const [address, port] = NODE.exec(node) ?? [];
    if (address === undefined)
      throw new EventStoreSettingsError(
        `EVENTSTORE_URL has an address that is no HOST or HOST:PORT: ${HOW_TO_WRITE}`,
      );
    if (port !== undefined && !isPort(Number(port)))
      throw new EventStoreSettingsError(
        'EVENTSTORE_URL has a port that is no whole number from 1 to 65535',
      );
  }
}

function hasKnownOptions(url: string): boolean {
  const known = OPTIONS.map((option) => option.toLowerCase());
  const given = url.slice(url.indexOf('?') + 1).split('&');
  return (
    !url.includes('?') ||
    given.every((pair) => known.includes((pair.split('=')[0] as string).toLowerCase()))
  );
}

function withOptions(url: string, options: Record<string, string | number>): string {
  const missing = Object.entries(options).filter(
    ([key]) => !url.toLowerCase().includes(`${key.toLowerCase()}=`),
  );
  const query = missing.map(([key, value]) => `${key}=${value}`).join('&');
  if (query === '') return url;
  return `${url}${url.includes('?') ? '&' : '?'}${query}`;
}
