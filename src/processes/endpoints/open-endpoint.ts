import { openFileEndpoint } from '../../adapters/files/open.ts';
import { type FileEndpoint, type FileEntry, FileError } from '../../adapters/files/port.ts';
import { refuseUnreadableKeys } from '../../adapters/files/private-key.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { acceptHostKey } from '../../commands/endpoints.ts';
import type { Cause, Handled } from '../../commands/handle.ts';
import {
  credentialsOf,
  definitionOf,
  editedDefinition,
} from '../../contract/endpoints/definition.ts';
import {
  type EndpointRequest,
  type EndpointUpdate,
  hasCredentials,
} from '../../contract/endpoints/requests.ts';
import {
  type Endpoint,
  type EndpointDefinition,
  hasHostKey,
  newHostKeysOf,
} from '../../domain/endpoints/endpoint.ts';
import { DomainError, fieldError } from '../../domain/errors.ts';
import { type EndpointCredentials, PROTOCOLS } from '../../domain/protocols/index.ts';
import { anyOf } from '../../domain/text.ts';
import { TRANSFER_ERRORS } from '../../domain/transfers/errors.ts';
import { folderBelow } from '../../domain/uri.ts';
import { openCredentials } from './credentials.ts';
import { forgetRejection, holdSignIn, noteRejection } from './sign-in-holds.ts';

const WITH_HOST_KEY = anyOf(
  PROTOCOLS.filter(({ fields }) => 'host_key_sha256' in fields).map(({ label }) => label),
);

/** Definition and credentials of an endpoint, saved or not. */
export interface EndpointAccess {
  definition: EndpointDefinition;
  credentials: EndpointCredentials;
}

/**
 * Returns the access to a saved endpoint, with `changes` that are not saved yet. Throws
 * `validation_failed` as saving them would, and `endpoint_failed` without credentials.
 */
export async function accessTo(
  vault: Vault,
  endpoint: Endpoint,
  changes: EndpointUpdate | null = null,
): Promise<EndpointAccess> {
  if (changes && hasCredentials(changes)) return accessOf(changes);
  const definition = changes ? editedDefinition(endpoint, changes) : endpoint;
  return {
    definition,
    credentials: await openCredentials(vault, endpoint).catch(throwDomainError),
  };
}

/**
 * Returns the access to an endpoint that is not saved. Throws `validation_failed` as saving it
 * would.
 */
export function accessOf(request: EndpointRequest): EndpointAccess {
  const { credentials } = credentialsOf(request);
  refuseUnreadableKeys(credentials);
  return { definition: definitionOf(request), credentials };
}

/**
 * Lists a folder of an endpoint, sorted by name, and records whether its server accepts the
 * credentials. `path` is relative to the endpoint's base. Throws `invalid_parameter`, `not_found` or
 * `endpoint_failed`.
 */
export async function listFolder(
  deps: ListerDeps,
  endpoint: Endpoint,
  path: string,
  signal: AbortSignal,
): Promise<FileEntry[]> {
  const folder = folderBelow(endpoint.settings, path, 'path');
  const lister = await openLister(deps, endpoint).catch(throwDomainError);
  try {
    const entries = await lister.list(folder, signal);
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    return throwDomainError(error);
  } finally {
    await lister.close();
  }
}

interface ListerDeps {
  vault: Vault;
  sql: Sql;
}

/** Lists folders over connections of its own. */
export interface Lister {
  /** `path` is a remote path. Throws FileError. */
  list(path: string, signal: AbortSignal): Promise<FileEntry[]>;
  /**
   * Returns when a file was last changed, as `FileEntry` has it. Null if the server does not say, or
   * if there is no such file. Throws FileError if the server does not answer or rejects the sign-in.
   */
  modifiedAt(path: string, signal: AbortSignal): Promise<string | null>;
  close(): Promise<void>;
}

/**
 * Opens a saved endpoint for many listings, and records whether its server accepts the credentials.
 * After a rejected sign-in, it does not sign in again; with `holds`, no process does for a while.
 * Throws FileError.
 */
export async function openLister(
  { vault, sql }: ListerDeps,
  endpoint: Endpoint,
  holds = false,
): Promise<Lister> {
  const remote = await openFileEndpoint(endpoint, await openCredentials(vault, endpoint));
  let signedIn = false;
  let rejection: FileError | null = null;

  async function signingIn<Result>(work: () => Promise<Result>): Promise<Result> {
    if (rejection !== null) throw rejection;
    try {
      return await work();
    } catch (error) {
      if (error instanceof FileError && error.code === 'auth_failed') {
        rejection = error;
        await (holds ? holdSignIn(sql, endpoint) : noteRejection(sql, endpoint));
      }
      throw error;
    }
  }

  return {
    async list(path, signal) {
      const entries = await signingIn(() => remote.list(path, signal));
      if (!signedIn) await forgetRejection(sql, endpoint);
      signedIn = true;
      return entries;
    },
    async modifiedAt(path, signal) {
      try {
        const file = await signingIn(() => remote.openSource(path, signal));
        await file.close();
        return file.modifiedAt && new Date(Number(file.modifiedAt) * 1_000).toISOString();
      } catch (error) {
        const says = error instanceof FileError && error.code !== 'auth_failed';
        if (says && !TRANSFER_ERRORS[error.code].retryable) return null;
        throw error;
      }
    },
    close: () => remote.close(),
  };
}

/**
 * Accepts the host key that an administrator has compared, if the verified server has announced it
 * or if the server presents it now. Throws `validation_failed` if the server presents another key,
 * `endpoint_failed` if it is unreachable.
 */
export async function acceptShownHostKey(
  deps: CommandDeps,
  endpoint: Endpoint,
  hostKeySha256: string,
  cause: Cause,
  signal: AbortSignal,
): Promise<Handled<Endpoint>> {
  if (!hasHostKey(endpoint.settings)) {
    throw fieldError(
      'host_key_sha256',
      `is for ${WITH_HOST_KEY} only: this endpoint has no host key`,
    );
  }
  if (newHostKeysOf(endpoint).some(({ sha256 }) => sha256 === hostKeySha256))
    return acceptHostKey(deps, endpoint.endpoint_id, hostKeySha256, cause);
  const { fingerprint } = await withEndpoint(await accessTo(deps.vault, endpoint), (remote) =>
    remote.probe(signal),
  );
  if (fingerprint !== hostKeySha256)
    throw fieldError('host_key_sha256', `is not what the server presents now: ${fingerprint}`);
  return acceptHostKey(deps, endpoint.endpoint_id, hostKeySha256, cause);
}

async function withEndpoint<T>(
  { definition, credentials }: EndpointAccess,
  work: (remote: FileEndpoint) => Promise<T>,
): Promise<T> {
  const remote = await openFileEndpoint(definition, credentials);
  try {
    return await work(remote);
  } catch (error) {
    return throwDomainError(error);
  } finally {
    await remote.close();
  }
}

function throwDomainError(error: unknown): never {
  throw error instanceof FileError ? toDomainError(error) : error;
}

function toDomainError(error: FileError): DomainError {
  const { shownCode: code, message } = error;
  const { advice } = TRANSFER_ERRORS[code];
  const missing = code === 'source_not_found';
  return new DomainError(
    missing ? 'not_found' : 'endpoint_failed',
    missing ? message : `${message}. ${advice}`,
    { endpoint_error: { code, message, advice } },
    { cause: error },
  );
}
