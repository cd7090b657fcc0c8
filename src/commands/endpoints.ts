import type {
  Endpoint,
  EndpointCredentials,
  EndpointDefinition,
  EndpointSettings,
  Protocol,
  SealedCredentials,
  SignIn,
} from '../domain/endpoint.ts';
import * as endpoint from '../domain/endpoint.ts';
import { DomainError, fieldError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import type { CommandDeps } from './deps.ts';
import { type Cause, type Handled, handle } from './handle.ts';
import { type EndpointRequest, type EndpointUpdate, ftpsPort, hasCredentials } from './requests.ts';

/** What the vault binds an endpoint's record to. */
export const CREDENTIALS = 'endpoint-credentials';

export interface SavedEndpoint {
  endpointId: string;
  created: boolean;
  position: bigint | null;
  state: Endpoint;
  revision: number;
}

/** Configures an endpoint, or updates the one of that name and replaces its credentials. */
export function saveEndpoint(deps: CommandDeps, request: EndpointRequest, cause: Cause): Promise<SavedEndpoint> {
  return holdingName(deps, request.name, (existing) =>
    existing ? update(deps, existing, request, cause) : configure(deps, newId('end'), request, cause),
  );
}

/**
 * Configures a new endpoint. May be repeated under the same id. Throws `validation_failed` where the name is taken.
 */
export function createEndpoint(deps: CommandDeps, request: EndpointRequest, cause: Cause, endpointId: string): Promise<SavedEndpoint> {
  return holdingName(deps, request.name, (existing) => {
    if (!existing || existing.endpoint_id === endpointId) return configure(deps, endpointId, request, cause);
    throw fieldError('name', `is taken by ${existing.endpoint_id}: change that one with PUT /v1/endpoints/${existing.endpoint_id}`);
  });
}

/**
 * Gives an endpoint another definition, and other credentials where the request has any. Throws `not_found`, or
 * `validation_failed` for another name, and where credentials that are kept would go to another server.
 */
export function updateEndpoint(deps: CommandDeps, endpointId: string, request: EndpointUpdate, cause: Cause): Promise<SavedEndpoint> {
  return holdingName(deps, request.name, async (existing) => {
    if (existing?.endpoint_id === endpointId) return update(deps, existing, request, cause);
    const named = (await deps.endpoints()).find(({ endpoint_id }) => endpoint_id === endpointId);
    if (!named) throw new DomainError('not_found', 'There is no such endpoint');
    throw fieldError('name', `must stay ${named.name}: transfers name the endpoint by it. Configure a new one instead`);
  });
}

function holdingName<T>(deps: CommandDeps, name: string, work: (existing: Endpoint | undefined) => Promise<T>): Promise<T> {
  return deps.exclusively(`endpoint-name:${name}`, async () => work((await deps.endpoints()).find((endpoint) => endpoint.name === name)));
}

async function configure(deps: CommandDeps, endpointId: string, request: EndpointRequest, cause: Cause): Promise<SavedEndpoint> {
  const data = {
    endpoint_id: endpointId,
    name: request.name,
    ...definitionOf(request),
    ...(await sealed(deps, request)),
    configured_at: new Date().toISOString(),
  };
  return { ...(await saved(deps, endpointId, { type: 'configure', data }, cause)), created: true };
}

async function update(deps: CommandDeps, existing: Endpoint, request: EndpointUpdate, cause: Cause): Promise<SavedEndpoint> {
  const definition = editedDefinition(existing, request);
  const credentials = hasCredentials(request) ? await sealed(deps, request) : null;
  return { ...(await saved(deps, existing.endpoint_id, { type: 'update', definition, credentials }, cause)), created: false };
}

/** The definition that an update asks for. Throws `validation_failed` where the credentials that it keeps would go to another server. */
export function editedDefinition(existing: Endpoint, request: EndpointUpdate): EndpointDefinition {
  const definition = definitionOf(request);
  if (!hasCredentials(request) && audienceOf(definition.settings) !== audienceOf(existing.settings)) {
    throw fieldError(SECRET_FIELDS[request.protocol], 'is required: the credentials that are kept were given for another server');
  }
  return definition;
}

const SECRET_FIELDS: Record<Protocol, string> = { sftp: 'password', ftps: 'password', s3: 'secret_access_key', azure: 'account_key' };

/** Who gets to see the credentials. */
function audienceOf(settings: EndpointSettings): string {
  if ('host' in settings) return `${settings.protocol} ${settings.host}:${settings.port}`;
  return `${settings.protocol} ${settings.protocol === 'azure' ? settings.account : ''} ${settings.endpoint_url}`;
}

async function sealed(deps: CommandDeps, request: EndpointRequest): Promise<SealedCredentials> {
  const { credentials, sign_in } = credentialsOf(request);
  return { credentials_record: await deps.vault.seal(CREDENTIALS, credentials), sign_in };
}

/** To be called with the name held: the next one who saves it has to find what this one appends. */
async function saved(
  deps: CommandDeps,
  endpointId: string,
  request: endpoint.EndpointCommand,
  cause: Cause,
): Promise<Omit<SavedEndpoint, 'created'>> {
  const { state, position, revision } = await handle(deps.store, endpoint, streamOf(endpointId), request, cause);
  if (state.status !== 'configured') throw new DomainError('not_found', 'There is no such endpoint');
  if (!(await deps.waitFor('catalog', position))) {
    throw new DomainError(
      'unavailable',
      'The endpoint is saved in the log, but the catalog projection does not keep up: look again before you save it once more',
    );
  }
  return { endpointId, position, state, revision };
}

/** Everything of a request but its secrets and its name. */
export function definitionOf(request: EndpointUpdate): EndpointDefinition {
  const { max_connections, accounts, overwrite } = request;
  return { max_connections, accounts, overwrite, settings: settingsOf(request) };
}

function settingsOf(request: EndpointUpdate): EndpointSettings {
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

export function credentialsOf(request: EndpointRequest): { credentials: EndpointCredentials; sign_in: SignIn } {
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
      { transfer_ids: open },
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
