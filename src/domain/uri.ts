import { DEFAULT_PORTS, type EndpointSettings, type Protocol } from './endpoint.ts';
import { type DomainErrorCode, fieldError } from './errors.ts';

/** A transfer URI, taken apart. */
export interface TransferUri {
  protocol: Protocol;
  /** Host, bucket, Azure account, or the configuration name of an endpoint. Lower case for host names. */
  authority: string;
  username: string | null;
  port: number | null;
  /** Percent-decoded; starts with a slash. */
  path: string;
}

/** What of an endpoint decides whether a URI means it. */
export interface Matchable {
  name: string;
  accounts: string[] | null;
  settings: EndpointSettings;
}

const SCHEMES: Record<string, Protocol> = { 'sftp:': 'sftp', 'ftps:': 'ftps', 's3:': 's3', 'azure:': 'azure' };
// C0 and C1 controls, and the characters that reorder or hide text for a reader.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const MAX_URI_BYTES = 4096;

/**
 * Takes a transfer URI apart. Throws DomainError `validation_failed` (with `field`), or
 * `credentials_in_uri` where it holds a password; the message never repeats the URI.
 */
export function parseTransferUri(text: string, field: string): TransferUri {
  if (UNSAFE.test(text)) throw fieldError(field, 'must not contain control characters or characters that reorder text');
  if (Buffer.byteLength(text) > MAX_URI_BYTES) throw fieldError(field, `must be at most ${MAX_URI_BYTES} bytes long`);
  const match = /^([a-z0-9+.-]+:)\/\/([^/?#\\]*)([^?#]*)(.*)$/is.exec(text);
  const protocol = match && SCHEMES[(match[1] as string).toLowerCase()];
  if (!match || !protocol) throw fieldError(field, 'must start with sftp://, ftps://, s3:// or azure://');
  if (match[4]) throw fieldError(field, 'must not contain a query or a fragment: write ? as %3F and # as %23 where they belong to a name');
  const authority = parseAuthority(match[2] as string, protocol, field);
  return { protocol, ...authority, path: parsePath(match[3] as string, field) };
}

function parseAuthority(text: string, protocol: Protocol, field: string): Pick<TransferUri, 'authority' | 'username' | 'port'> {
  const at = text.lastIndexOf('@');
  const userinfo = at < 0 ? null : text.slice(0, at);
  if (userinfo?.includes(':')) {
    throw fieldError(field, 'must not contain a password: credentials belong to the endpoint configuration', 'credentials_in_uri');
  }
  const match = /^(\[[0-9a-f:.]+\]|[^:[\]]*)(?::(\d*))?$/i.exec(text.slice(at + 1));
  if (!match?.[1]) throw fieldError(field, 'must name a host, bucket, account or endpoint after //');
  const cloud = protocol === 's3' || protocol === 'azure';
  const port = match[2] === undefined ? null : Number(match[2]);
  if (port !== null && (cloud || port < 1 || port > 65_535)) {
    throw fieldError(field, cloud ? 'must not name a port: it belongs to the endpoint configuration' : 'must name a port from 1 to 65535');
  }
  if (cloud && userinfo !== null) throw fieldError(field, 'must not name a user: it belongs to the endpoint configuration');
  if (/[\s%]/.test(match[1])) throw fieldError(field, 'must name a host without spaces or percent signs');
  const username = userinfo === null ? null : decode(userinfo, field);
  return { authority: match[1].toLowerCase().replace(/\.$/, ''), username, port };
}

function parsePath(text: string, field: string): string {
  if (/%2f/i.test(text)) throw fieldError(field, 'must not contain an encoded slash (%2F): it would end a name that it seems to belong to');
  return checkPath(decode(text, field), field);
}

function checkPath(path: string, field: string, code: DomainErrorCode = 'validation_failed'): string {
  if (UNSAFE.test(path)) throw fieldError(field, 'must not contain control characters, encoded or not', code);
  if (path.includes('\\')) throw fieldError(field, 'must not contain a backslash', code);
  const segments = path.split('/');
  if (segments.some((segment) => segment === '..' || segment === '.'))
    throw fieldError(field, 'must not contain . or .. as a segment', code);
  if (segments.slice(1, -1).includes('')) throw fieldError(field, 'must not contain an empty segment (//)', code);
  return path === '' ? '/' : path;
}

function decode(text: string, field: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw fieldError(field, 'must be percent-encoded UTF-8: write a percent sign in a name as %25');
  }
}

/** Last segment of the path; empty where the URI ends in a slash. */
export function fileName(uri: TransferUri): string {
  return uri.path.slice(uri.path.lastIndexOf('/') + 1);
}

/**
 * The endpoint that a URI means, and the path there. A configuration name as authority wins over a
 * host match; of several the one with the longest base path wins. null where none matches, or where
 * none that does is open to the account.
 */
export function matchEndpoint<E extends Matchable>(
  uri: TransferUri,
  endpoints: readonly E[],
  accountId: string,
): { endpoint: E; path: string } | null {
  const open = endpoints.filter(
    (endpoint) => endpoint.settings.protocol === uri.protocol && (endpoint.accounts?.includes(accountId) ?? true),
  );
  const named = open.find((endpoint) => endpoint.name === uri.authority && uri.port === null && sameUser(uri, endpoint.settings));
  if (named) return { endpoint: named, path: pathBelow(named.settings, uri.path) };
  let best: { endpoint: E; path: string; depth: number } | null = null;
  for (const endpoint of open) {
    const path = matchHost(uri, endpoint.settings);
    if (path === null) continue;
    const depth = base(endpoint.settings).length;
    if (best === null || depth > best.depth) best = { endpoint, path, depth };
  }
  return best && { endpoint: best.endpoint, path: best.path };
}

function sameUser(uri: TransferUri, settings: EndpointSettings): boolean {
  return uri.username === null || ('username' in settings && settings.username === uri.username);
}

/** Base path or prefix, with a slash at its start and none at its end; empty for the root. */
function base(settings: EndpointSettings): string {
  const text = 'base_path' in settings ? settings.base_path : settings.prefix;
  const trimmed = text.replace(/^\/+|\/+$/g, '');
  return trimmed === '' ? '' : `/${trimmed}`;
}

function pathBelow(settings: EndpointSettings, path: string): string {
  return remotePath(settings, base(settings) + path);
}

/**
 * The remote path of a folder of an endpoint, `path` being taken below its base as in a URI that names the endpoint, and
 * decoded already. Throws DomainError `invalid_parameter`, with `field`.
 */
export function folderBelow(settings: EndpointSettings, path: string, field: string): string {
  if (!path.startsWith('/')) throw fieldError(field, 'must start with a slash', 'invalid_parameter');
  checkPath(path, field, 'invalid_parameter');
  const folder = pathBelow(settings, path.replace(/\/$/, ''));
  return folder === '' && 'base_path' in settings ? '/' : folder;
}

/** Keys and blob names have no slash at their start. */
function remotePath(settings: EndpointSettings, path: string): string {
  return 'base_path' in settings ? path : path.slice(1);
}

function matchHost(uri: TransferUri, settings: EndpointSettings): string | null {
  if (!sameUser(uri, settings)) return null;
  switch (settings.protocol) {
    case 'sftp':
      return matchesServer(uri, settings, DEFAULT_PORTS.sftp) ? underBase(uri.path, settings) : null;
    case 'ftps':
      return matchesServer(uri, settings, DEFAULT_PORTS[settings.tls]) ? underBase(uri.path, settings) : null;
    case 's3':
      return uri.authority === settings.bucket.toLowerCase() ? underBase(uri.path, settings) : null;
    case 'azure': {
      const container = `/${settings.container}`;
      const inContainer = uri.authority === settings.account.toLowerCase() && uri.path.startsWith(`${container}/`);
      return inContainer ? underBase(uri.path.slice(container.length), settings) : null;
    }
  }
}

function matchesServer(uri: TransferUri, settings: { host: string; port: number }, defaultPort: number): boolean {
  return hostName(uri.authority) === hostName(settings.host) && (uri.port ?? defaultPort) === settings.port;
}

/** A host as it is compared: an IPv6 address stands in brackets in a URI, and without them where it is dialled. */
function hostName(text: string): string {
  return text
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}

function underBase(path: string, settings: EndpointSettings): string | null {
  const root = base(settings);
  return root === '' || path.startsWith(`${root}/`) ? remotePath(settings, path) : null;
}
