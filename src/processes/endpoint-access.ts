import { openFileEndpoint } from '../adapters/files/open.ts';
import { type FileEndpoint, type FileEntry, FileError } from '../adapters/files/port.ts';
import type { Vault } from '../adapters/vault.ts';
import type { CommandDeps } from '../commands/deps.ts';
import { acceptHostKey, CREDENTIALS, credentialsOf, definitionOf, editedDefinition } from '../commands/endpoints.ts';
import type { Cause, Handled } from '../commands/handle.ts';
import { type EndpointRequest, type EndpointUpdate, hasCredentials } from '../commands/requests.ts';
import type { Endpoint, EndpointCredentials, EndpointDefinition } from '../domain/endpoint.ts';
import { DomainError, fieldError } from '../domain/errors.ts';
import { TRANSFER_ERRORS } from '../domain/transfer-errors.ts';
import { folderBelow } from '../domain/uri.ts';

/** What it takes to sign in to an endpoint, saved or not. */
export interface Access {
  definition: EndpointDefinition;
  credentials: EndpointCredentials;
}

/** A saved endpoint, or one with changes that are not saved yet. Throws `validation_failed` as saving them would. */
export async function accessTo(vault: Vault, endpoint: Endpoint, changes: EndpointUpdate | null = null): Promise<Access> {
  if (changes && hasCredentials(changes)) return accessOf(changes);
  const definition = changes ? editedDefinition(endpoint, changes) : endpoint;
  return { definition, credentials: await vault.open<EndpointCredentials>(endpoint.credentials_record, CREDENTIALS) };
}

/** An endpoint that is not saved. */
export function accessOf(request: EndpointRequest): Access {
  return { definition: definitionOf(request), credentials: credentialsOf(request).credentials };
}

/** A folder of an endpoint, by name; `path` is taken below its base. Throws `invalid_parameter`, `not_found` or `endpoint_failed`. */
export async function listFolder(vault: Vault, endpoint: Endpoint, path: string, signal: AbortSignal): Promise<FileEntry[]> {
  const folder = folderBelow(endpoint.settings, path, 'path');
  const entries = await withEndpoint(await accessTo(vault, endpoint), (remote) => remote.list(folder, signal));
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Pins the host key that an administrator has seen and approved, if it is the one that the server shows now. Throws
 * `validation_failed` where it is another, `endpoint_failed` where the server can't be asked.
 */
export async function acceptShownHostKey(
  deps: CommandDeps,
  endpoint: Endpoint,
  hostKeySha256: string,
  cause: Cause,
  signal: AbortSignal,
): Promise<Handled<Endpoint>> {
  if (endpoint.settings.protocol !== 'sftp') throw fieldError('host_key_sha256', 'belongs to SFTP: this endpoint has no host key');
  const { fingerprint } = await withEndpoint(await accessTo(deps.vault, endpoint), (remote) => remote.probe(signal));
  if (fingerprint !== hostKeySha256) throw fieldError('host_key_sha256', `is not what the server shows now: ${fingerprint}`);
  return acceptHostKey(deps, endpoint.endpoint_id, hostKeySha256, cause);
}

async function withEndpoint<T>({ definition, credentials }: Access, work: (remote: FileEndpoint) => Promise<T>): Promise<T> {
  const remote = await openFileEndpoint(definition, credentials);
  try {
    return await work(remote);
  } catch (error) {
    throw error instanceof FileError ? refused(error) : error;
  } finally {
    await remote.close();
  }
}

function refused(error: FileError): DomainError {
  const { code, message } = error;
  const { advice } = TRANSFER_ERRORS[code];
  const missing = code === 'source_not_found';
  return new DomainError(
    missing ? 'not_found' : 'endpoint_failed',
    missing ? message : `${message}. ${advice}`,
    { endpoint_error: { code, message, advice } },
    { cause: error },
  );
}
