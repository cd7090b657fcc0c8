import type { Endpoint, EndpointCredentials, EndpointDefinition, EndpointSettings } from '../domain/endpoint.ts';
import * as endpoint from '../domain/endpoint.ts';
import { DomainError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, type Handled, handle } from './handle.ts';
import { type EndpointRequest, ftpsPort } from './requests.ts';

/** What the vault binds an endpoint's record to. */
export const CREDENTIALS = 'endpoint-credentials';

export interface SavedEndpoint {
  endpointId: string;
  created: boolean;
  position: bigint | null;
}

/** Configures an endpoint, or updates the one of that name and replaces its credentials. */
export function saveEndpoint(deps: CommandDeps, request: EndpointRequest, cause: Cause): Promise<SavedEndpoint> {
  const definition = definitionOf(request);
  const { credentials, sign_in } = credentialsOf(request);
  return deps.exclusively(`endpoint-name:${request.name}`, async () => {
    const existing = (await deps.endpoints()).find(({ name }) => name === request.name);
    const record = { credentials_record: await deps.vault.seal(CREDENTIALS, credentials), sign_in };
    const endpointId = existing?.endpoint_id ?? newId('end');
    const command: endpoint.EndpointCommand = existing
      ? { type: 'update', definition, credentials: record }
      : {
          type: 'configure',
          data: { endpoint_id: endpointId, name: request.name, ...definition, ...record, configured_at: new Date().toISOString() },
        };
    const { position } = await handle(deps.store, endpoint, streamOf(endpointId), command, cause);
    // Within the lock: the next one who saves this name has to find it.
    if (!(await deps.waitFor('catalog', position))) {
      throw new DomainError(
        'unavailable',
        'The endpoint is saved in the log, but the catalog projection does not keep up: look again before you save it once more',
      );
    }
    return { endpointId, created: !existing, position };
  });
}

function definitionOf(request: EndpointRequest): EndpointDefinition {
  const { max_connections, accounts, overwrite } = request;
  return { max_connections, accounts, overwrite, settings: settingsOf(request) };
}

function settingsOf(request: EndpointRequest): EndpointSettings {
  switch (request.protocol) {
    case 'sftp': {
      const { protocol, host, port, base_path, username, host_key_sha256 } = request;
      return { protocol, host, port, base_path, username, host_key_sha256 };
    }
    case 'ftps': {
      const { protocol, host, base_path, username, tls, ca_pem } = request;
      return { protocol, host, port: ftpsPort(request), base_path, username, tls, ca_pem };
    }
    case 's3': {
      const { protocol, bucket, prefix, region, endpoint_url, force_path_style, ca_pem, storage_class, sse, sse_kms_key_id } = request;
      return { protocol, bucket, prefix, region, endpoint_url, force_path_style, ca_pem, storage_class, sse, sse_kms_key_id };
    }
    case 'azure': {
      const { protocol, account, container, prefix, endpoint_url, ca_pem } = request;
      return { protocol, account, container, prefix, endpoint_url, ca_pem };
    }
  }
}

function credentialsOf(request: EndpointRequest): { credentials: EndpointCredentials; sign_in: string } {
  switch (request.protocol) {
    case 'sftp': {
      if (request.private_key === undefined) return { credentials: { password: request.password as string }, sign_in: 'password' };
      const { private_key, passphrase } = request;
      return { credentials: { private_key, passphrase }, sign_in: 'private_key' };
    }
    case 'ftps':
      return { credentials: { password: request.password }, sign_in: 'password' };
    case 's3': {
      const { access_key_id, secret_access_key } = request;
      return { credentials: { access_key_id, secret_access_key }, sign_in: 'access_key' };
    }
    case 'azure':
      return request.sas_token === undefined
        ? { credentials: { account_key: request.account_key as string }, sign_in: 'account_key' }
        : { credentials: { sas_token: request.sas_token }, sign_in: 'sas_token' };
  }
}

/** Nothing new is claimed for the endpoint; what moves goes on. */
export function pauseEndpoint(deps: CommandDeps, endpointId: string, cause: Cause): Promise<Handled<Endpoint>> {
  return command(deps, endpointId, { type: 'pause' }, cause);
}

export function resumeEndpoint(deps: CommandDeps, endpointId: string, cause: Cause): Promise<Handled<Endpoint>> {
  return command(deps, endpointId, { type: 'resume' }, cause);
}

/** Pins the host key that an administrator has approved. */
export function acceptHostKey(deps: CommandDeps, endpointId: string, hostKeySha256: string, cause: Cause): Promise<Handled<Endpoint>> {
  return command(deps, endpointId, { type: 'accept_host_key', host_key_sha256: hostKeySha256 }, cause);
}

/** Says that an endpoint can't be reached, once in an outage: `lastSuccessAt` is when it last could, null for never. */
export function loseConnectivity(
  deps: CommandDeps,
  { endpoint_id, name, settings }: Endpoint,
  outage: { lastSuccessAt: string | null; error: endpoint.ConnectivityLost['error'] },
  cause: Cause,
): Promise<Handled<Endpoint>> {
  const data = {
    endpoint_id,
    name,
    protocol: settings.protocol,
    host: endpoint.hostOf(settings),
    last_success_at: outage.lastSuccessAt,
    detected_at: new Date().toISOString(),
    error: outage.error,
  };
  return command(deps, endpoint_id, { type: 'lose_connectivity', data }, cause);
}

/** Says that an outage is over; nothing where there is none. */
export function restoreConnectivity(deps: CommandDeps, endpointId: string, cause: Cause): Promise<Handled<Endpoint>> {
  return command(deps, endpointId, { type: 'restore_connectivity', now: new Date().toISOString() }, cause);
}

/** Throws `endpoint_in_use` while open transfers read from it or write to it, naming them. */
export async function removeEndpoint(deps: CommandDeps, endpointId: string, cause: Cause): Promise<void> {
  const open = await deps.openTransfersOf(endpointId);
  if (open.length > 0) {
    throw new DomainError(
      'endpoint_in_use',
      `Open transfers use this endpoint: ${open.join(', ')}. Wait for their end or cancel them, then remove it`,
    );
  }
  const { position } = await handle(deps.store, endpoint, streamOf(endpointId), { type: 'remove' }, cause);
  await deps.waitFor('catalog', position);
}

async function command(deps: CommandDeps, endpointId: string, request: endpoint.EndpointCommand, cause: Cause): Promise<Handled<Endpoint>> {
  const { state, ...handled } = await handle(deps.store, endpoint, streamOf(endpointId), request, cause);
  if (state.status !== 'configured') throw new DomainError('not_found', 'There is no such endpoint');
  await deps.waitFor('catalog', handled.position);
  return { state, ...handled };
}

export function streamOf(endpointId: string): string {
  return `endpoint-${endpointId}`;
}
