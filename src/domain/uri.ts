import { hasFolders } from './endpoints/endpoint.ts';
import { type DomainError, type DomainErrorCode, fieldError } from './errors.ts';
import {
  type EndpointSettings,
  PROTOCOL_NAMES,
  type ProtocolName,
  protocolOf,
} from './protocols/index.ts';
import type { UriParts } from './protocols/protocol.ts';
import { anyOf, UNSAFE, UNSAFE_WORDS } from './text.ts';

/** The parts of a transfer URI. */
export interface TransferUri extends UriParts {
  protocol: ProtocolName;
}

/** The properties of an endpoint that decide whether a URI means it. */
export interface Matchable {
  name: string;
  accounts: string[] | null;
  settings: EndpointSettings;
}

/** The scheme of each protocol, joined for a sentence: `sftp://, ftps:// or ...`. */
export const SCHEMES = anyOf(PROTOCOL_NAMES.map((name) => `${name}://`));

const MAX_URI_BYTES = 4096;

/**
 * Parses a transfer URI. Throws DomainError `validation_failed` (with `field`), or
 * `credentials_in_uri` if the URI holds a password. The message never repeats the URI.
 */
export function parseTransferUri(text: string, field: string): TransferUri {
  if (UNSAFE.test(text)) throw fieldError(field, `must not contain ${UNSAFE_WORDS}`);
  if (Buffer.byteLength(text) > MAX_URI_BYTES)
    throw fieldError(field, `must be at most ${MAX_URI_BYTES} bytes long`);
  const match = /^([a-z0-9+.-]+):\/\/([^/?#\\]*)([^?#]*)(.*)$/is.exec(text);
  const scheme = match?.[1]?.toLowerCase();
  const protocol = PROTOCOL_NAMES.find((name) => name === scheme);
  if (!match || !protocol) throw fieldError(field, `must start with ${SCHEMES}`);
  if (match[4])
    throw fieldError(
      field,
      'must not contain a query or a fragment: write ? as %3F and # as %23 in names',
    );
  const authority = parseAuthority(match[2] as string, protocol, field);
  return { protocol, ...authority, path: parsePath(match[3] as string, field) };
}

/**
 * Parses the URI of a request. Throws as `parseTransferUri`, and also for `user:password` that is
 * encoded as one name, as some programs write it. A log may hold such a name.
 */
export function parseRequestedUri(text: string, field: string): TransferUri {
  const uri = parseTransferUri(text, field);
  if (uri.username?.includes(':')) throw passwordIn(field);
  return uri;
}

/** Returns whether a server can have this port. */
export function isPort(port: number): boolean {
  return port >= 1 && port <= 65_535;
}

function passwordIn(field: string): DomainError {
  return fieldError(
    field,
    'must not contain a password: credentials belong to the endpoint configuration',
    'credentials_in_uri',
  );
}

function parseAuthority(
  text: string,
  protocol: ProtocolName,
  field: string,
): Pick<TransferUri, 'authority' | 'username' | 'port'> {
  const at = text.lastIndexOf('@');
  const userinfo = at < 0 ? null : text.slice(0, at);
  if (userinfo?.includes(':')) throw passwordIn(field);
  const match = /^(\[[0-9a-f:.]+\]|[^:[\]]*)(?::(\d*))?$/i.exec(text.slice(at + 1));
  // As in RFC 6874, or not encoded as some programs write it.
  if (/^\[[^\]]*%/.test(text.slice(at + 1)))
    throw fieldError(
      field,
      'must not name the zone of an IPv6 address: write the name of the endpoint as the host',
    );
  if (!match?.[1])
    throw fieldError(field, 'must name a host, bucket, account or endpoint after //');
  const hasPort = protocolOf({ protocol }).defaultPort !== undefined;
  const port = match[2] === undefined ? null : Number(match[2]);
  if (port !== null && (!hasPort || !isPort(port))) {
    throw fieldError(
      field,
      hasPort
        ? 'must name a port from 1 to 65535'
        : 'must not name a port: it belongs to the endpoint configuration',
    );
  }
  if (!hasPort && userinfo !== null)
    throw fieldError(field, 'must not name a user: it belongs to the endpoint configuration');
  if (/[\s%]/.test(match[1]))
    throw fieldError(field, 'must name a host without spaces or percent signs');
  const username = userinfo === null ? null : decode(userinfo, field);
  return { authority: match[1].toLowerCase().replace(/\.$/, ''), username, port };
}

function parsePath(text: string, field: string): string {
  if (/%2f/i.test(text))
    throw fieldError(field, 'must not contain an encoded slash (%2F): a slash always ends a name');
  return checkPath(decode(text, field), field);
}

function checkPath(
  path: string,
  field: string,
  code: DomainErrorCode = 'validation_failed',
): string {
  if (UNSAFE.test(path))
    throw fieldError(field, `must not contain ${UNSAFE_WORDS}, encoded or not`, code);
  if (path.includes('\\')) throw fieldError(field, 'must not contain a backslash', code);
  const segments = path.split('/');
  if (segments.some((segment) => segment === '..' || segment === '.'))
    throw fieldError(field, 'must not contain . or .. as a segment', code);
  if (segments.slice(1, -1).includes(''))
    throw fieldError(field, 'must not contain an empty segment (//)', code);
  return path === '' ? '/' : path;
}

function decode(text: string, field: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw fieldError(field, 'must be percent-encoded UTF-8: write a percent sign in a name as %25');
  }
}

/** Returns a path as a URI has it. Throws URIError for one that is not valid Unicode. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

/** Returns the last segment of the path; empty if the URI ends in a slash. */
export function fileName(uri: TransferUri): string {
  return uri.path.slice(uri.path.lastIndexOf('/') + 1);
}

/** The file that a transfer reads, and the file that it writes. */
export interface TransferPlaces {
  /** Last path segment of the source, percent-decoded. */
  file_name: string;
  source: string;
  /** `destination_uri`, plus the file name if that ends in a slash. */
  destination: string;
}

/** Returns the files of a transfer. Throws as `parseTransferUri` for an invalid source. */
export function placesOf(sourceUri: string, destinationUri: string): TransferPlaces {
  return {
    file_name: fileName(parseTransferUri(sourceUri, 'source_uri')),
    source: sourceUri,
    destination: destinationUri.endsWith('/')
      ? destinationUri + sourceUri.slice(sourceUri.lastIndexOf('/') + 1)
      : destinationUri,
  };
}

/**
 * Returns the endpoint that a URI means, and the path there. A configuration name as authority
 * takes precedence over a host match. Among host matches, the longest base path wins. Returns null
 * if no endpoint matches, or if the account may use none of those that match.
 */
export function matchEndpoint<E extends Matchable>(
  uri: TransferUri,
  endpoints: readonly E[],
  accountId: string,
): { endpoint: E; path: string } | null {
  const open = endpoints.filter(
    (endpoint) =>
      endpoint.settings.protocol === uri.protocol &&
      (endpoint.accounts?.includes(accountId) ?? true),
  );
  const named = open.find(
    (endpoint) =>
      endpoint.name === uri.authority && uri.port === null && sameUser(uri, endpoint.settings),
  );
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

/** Returns whether a URI that `parseTransferUri` accepts means an endpoint. */
export function isOnEndpoint(
  uri: string,
  endpointId: string,
  endpoints: readonly (Matchable & { endpoint_id: string })[],
  accountId: string,
): boolean {
  const match = matchEndpoint(parseTransferUri(uri, 'uri'), endpoints, accountId);
  return match?.endpoint.endpoint_id === endpointId;
}

function sameUser(uri: TransferUri, settings: EndpointSettings): boolean {
  return uri.username === null || ('username' in settings && settings.username === uri.username);
}

/** Returns base path or prefix with a slash at the start, none at the end; empty for the root. */
function base(settings: EndpointSettings): string {
  const text = hasFolders(settings) ? settings.base_path : settings.prefix;
  const trimmed = text.replace(/^\/+|\/+$/g, '');
  return trimmed === '' ? '' : `/${trimmed}`;
}

function pathBelow(settings: EndpointSettings, path: string): string {
  return remotePath(settings, base(settings) + path);
}

/**
 * Returns the remote path of an endpoint's folder. `path` is already decoded and relative to the
 * endpoint's base, as in a URI that names the endpoint. Throws DomainError `invalid_parameter`,
 * with `field`.
 */
export function folderBelow(settings: EndpointSettings, path: string, field: string): string {
  if (!path.startsWith('/'))
    throw fieldError(field, 'must start with a slash', 'invalid_parameter');
  checkPath(path, field, 'invalid_parameter');
  const folder = pathBelow(settings, path.replace(/\/$/, ''));
  return folder === '' && hasFolders(settings) ? '/' : folder;
}

/** Removes the leading slash for an object store: keys and blob names do not start with one. */
function remotePath(settings: EndpointSettings, path: string): string {
  return hasFolders(settings) ? path : path.slice(1);
}

function matchHost(uri: TransferUri, settings: EndpointSettings): string | null {
  const path = sameUser(uri, settings) ? protocolOf(settings).locate(uri, settings) : null;
  return path === null ? null : underBase(path, settings);
}

function underBase(path: string, settings: EndpointSettings): string | null {
  const root = base(settings);
  return root === '' || path.startsWith(`${root}/`) ? remotePath(settings, path) : null;
}
