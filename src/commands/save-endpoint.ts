import { refuseUnreadableKeys } from '../adapters/files/private-key.ts';
import { ENDPOINT_CREDENTIALS } from '../adapters/vault.ts';
import { credentialsOf, definitionOf } from '../contract/endpoints/definition.ts';
import {
  type EndpointRequest,
  type EndpointUpdate,
  hasCredentials,
} from '../contract/endpoints/requests.ts';
import { endpointDecider } from '../domain/endpoints/decider.ts';
import type { Endpoint, EndpointState, SealedCredentials } from '../domain/endpoints/endpoint.ts';
import { DomainError, fieldError, notFound } from '../domain/errors.ts';
import { streamName } from '../domain/events/streams.ts';
import { newId } from '../domain/ids.ts';
import { untilInEffect } from './catalog.ts';
import type { CommandDeps } from './deps.ts';
import { claimName } from './endpoint-names.ts';
import { type Cause, handle, load } from './handle.ts';

export interface SavedEndpoint {
  endpointId: string;
  created: boolean;
  position: bigint | null;
  state: Endpoint;
  revision: number;
}

/** Configures an endpoint, or updates the one of that name and replaces its credentials. */
export function saveEndpoint(
  deps: CommandDeps,
  request: EndpointRequest,
  cause: Cause,
): Promise<SavedEndpoint> {
  return holdingName(deps, request.name, async (assertHeld) => {
    const existing = await findByName(deps, request.name);
    if (existing) return update(deps, existing.endpoint_id, request, cause, assertHeld);
    const { saved, holder } = await configure(deps, newId('end'), request, cause, assertHeld);
    return saved ?? update(deps, holder, request, cause, assertHeld);
  });
}

/**
 * Configures a new endpoint. May be repeated with the same id. The endpoint may get another id: see
 * `claimName`. Throws `validation_failed` if the name is taken.
 */
export function createEndpoint(
  deps: CommandDeps,
  request: EndpointRequest,
  cause: Cause,
  endpointId: string,
): Promise<SavedEndpoint> {
  return holdingName(deps, request.name, async (assertHeld) => {
    const { saved, holder } = await configure(deps, endpointId, request, cause, assertHeld);
    if (saved) return saved;
    throw fieldError(
      'name',
      `is taken by ${holder}: change that one with PUT /v1/endpoints/${holder}`,
    );
  });
}

/**
 * Replaces the definition of an endpoint, and its credentials if the request has any. Throws
 * `not_found`. Throws `validation_failed` for another name, and if the stored credentials would go
 * to another server. Throws `precondition_failed` if `onlyAt` lacks the revision of the endpoint.
 */
export function updateEndpoint(
  deps: CommandDeps,
  endpointId: string,
  request: EndpointUpdate,
  cause: Cause,
  onlyAt?: readonly number[],
): Promise<SavedEndpoint> {
  return holdingName(deps, request.name, async (assertHeld) => {
    const { state: existing } = await loadEndpoint(deps, endpointId);
    if (existing.status !== 'configured') throw notFound('endpoint');
    if (existing.name === request.name)
      return update(deps, endpointId, request, cause, assertHeld, onlyAt);
    throw fieldError(
      'name',
      `must stay ${existing.name}: transfers name the endpoint by it. Configure a new one instead`,
    );
  });
}

/**
 * Serializes changes under one name, to save work. The streams decide, even if the lock is lost.
 */
function holdingName<T>(
  deps: CommandDeps,
  name: string,
  work: (assertHeld: () => void) => Promise<T>,
): Promise<T> {
  return deps.exclusively(`endpoint-name:${name}`, work);
}

async function findByName(deps: CommandDeps, name: string): Promise<Endpoint | undefined> {
  return (await deps.endpoints()).find((endpoint) => endpoint.name === name);
}

/**
 * Configures an endpoint under the id that holds the name. `saved` is null if another request
 * configured that endpoint. The id of its first event tells which request did, also after a crash
 * or with an adopted id.
 */
async function configure(
  deps: CommandDeps,
  endpointId: string,
  request: EndpointRequest,
  cause: Cause,
  assertHeld: () => void,
): Promise<{ saved: SavedEndpoint | null; holder: string }> {
  const { store } = deps;
  const eventId = endpointId.replace('end_', 'evt_');
  const now = new Date().toISOString();
  const isOwn = ({ first }: Loaded) => first?.id === eventId;

  if (!(await deps.catchUp('catalog'))) {
    throw new DomainError(
      'unavailable',
      'The catalog projection is behind the log and does not show yet whether the name is ' +
        'free; try again in a moment',
    );
  }
  const shown = await findByName(deps, request.name);
  assertHeld();
  const isRemoved = async (id: string) => {
    const loaded = await loadEndpoint(deps, id);
    return loaded.state.status === 'removed' && !isOwn(loaded);
  };
  const holder =
    shown?.endpoint_id ?? (await claimName(store, request.name, endpointId, isRemoved, cause));

  const before = await loadEndpoint(deps, holder);
  if (before.first === null) {
    const data = {
      endpoint_id: holder,
      name: request.name,
      ...definitionOf(request),
      ...(await sealed(deps, request)),
      configured_at: now,
    };
    assertHeld();
    const stream = streamName('endpoint', holder);
    await handle(store, endpointDecider, stream, { type: 'configure', data }, cause, {
      reserved: { eventId, now },
    });
  }
  const after = before.first === null ? await loadEndpoint(deps, holder) : before;
  if (isOwn(after)) return { saved: await savedEndpoint(deps, after, true), holder };
  if (after.state.status === 'configured') return { saved: null, holder };
  throw new DomainError(
    'unavailable',
    `Another request has just removed the endpoint ${request.name}; try again in a moment`,
  );
}

type Loaded = Awaited<ReturnType<typeof load<EndpointState>>>;

function loadEndpoint({ store }: CommandDeps, endpointId: string): Promise<Loaded> {
  return load(store, endpointDecider, streamName('endpoint', endpointId));
}

async function update(
  deps: CommandDeps,
  endpointId: string,
  request: EndpointUpdate,
  cause: Cause,
  assertHeld: () => void,
  onlyAt?: readonly number[],
): Promise<SavedEndpoint> {
  const definition = definitionOf(request);
  const credentials = hasCredentials(request) ? await sealed(deps, request) : null;
  assertHeld();
  const handled = await handle(
    deps.store,
    endpointDecider,
    streamName('endpoint', endpointId),
    { type: 'update', definition, credentials },
    cause,
    { onlyAt },
  );
  return savedEndpoint(deps, handled, false);
}

async function sealed(deps: CommandDeps, request: EndpointRequest): Promise<SealedCredentials> {
  const { credentials, sign_in } = credentialsOf(request);
  refuseUnreadableKeys(credentials);
  return { credentials_record: await deps.vault.seal(ENDPOINT_CREDENTIALS, credentials), sign_in };
}

/** Waits until the saved endpoint is in effect. Throws `not_found` for a removed endpoint. */
async function savedEndpoint(
  deps: CommandDeps,
  { state, position, revision }: Pick<Loaded, 'state' | 'position' | 'revision'>,
  created: boolean,
): Promise<SavedEndpoint> {
  if (state.status !== 'configured') throw notFound('endpoint');
  if (!(await untilInEffect(deps, position))) {
    throw new DomainError(
      'unavailable',
      `The endpoint ${state.endpoint_id} is saved in the log, but the catalog projection is ` +
        'behind: read the endpoint before you save it again',
    );
  }
  return { endpointId: state.endpoint_id, created, position, state, revision };
}
