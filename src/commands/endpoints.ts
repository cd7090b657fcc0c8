import type { Bandwidth } from '../domain/endpoints/bandwidth.ts';
import { type EndpointCommand, endpointDecider } from '../domain/endpoints/decider.ts';
import { type ConnectivityLost, type Endpoint, hostOf } from '../domain/endpoints/endpoint.ts';
import { DomainError, notFound } from '../domain/errors.ts';
import { streamName } from '../domain/events/streams.ts';
import { usesEndpoint } from '../domain/flows/uses-endpoint.ts';
import type { AnnouncedHostKey } from '../domain/protocols/host-keys.ts';
import { untilInEffect } from './catalog.ts';
import type { CommandDeps } from './deps.ts';
import {
  type Cause,
  type Handled,
  handle,
  load,
  ofRequest,
  requireRevision,
  type Timed,
} from './handle.ts';

/** Flows or batches that an error names. */
const NAMED = 10;

/** Stops new claims for transfers of the endpoint. Transfers that already move continue. */
export function pauseEndpoint(
  deps: CommandDeps,
  endpointId: string,
  cause: Cause,
): Promise<Handled<Endpoint>> {
  return changeEndpoint(deps, endpointId, { type: 'pause' }, cause);
}

export function resumeEndpoint(
  deps: CommandDeps,
  endpointId: string,
  cause: Cause,
): Promise<Handled<Endpoint>> {
  return changeEndpoint(deps, endpointId, { type: 'resume' }, cause);
}

/** Accepts a host key that an administrator has compared: see `EndpointCommand`. */
export function acceptHostKey(
  deps: CommandDeps,
  endpointId: string,
  hostKeySha256: string,
  cause: Cause,
): Promise<Handled<Endpoint>> {
  return changeEndpoint(
    deps,
    endpointId,
    { type: 'accept_host_key', host_key_sha256: hostKeySha256 },
    cause,
  );
}

/** Changes the limit, also for transfers that move. Null removes it. */
export function limitBandwidth(
  deps: CommandDeps,
  endpointId: string,
  bandwidth: Bandwidth | null,
  cause: Cause,
): Promise<Handled<Endpoint>> {
  return changeEndpoint(deps, endpointId, { type: 'limit_bandwidth', bandwidth }, cause);
}

/**
 * Records the host keys that a verified server has announced, each once. Throws `not_found` for an
 * endpoint that was removed.
 */
export async function announceHostKeys(
  { store }: Pick<CommandDeps, 'store'>,
  endpointId: string,
  hostKeys: AnnouncedHostKey[],
  cause: Cause,
): Promise<void> {
  await handle(
    store,
    endpointDecider,
    streamName('endpoint', endpointId),
    (now) => ({ type: 'announce_host_keys', host_keys: hostKeys, now }) as const,
    cause,
  );
}

/**
 * Records, once per outage, that an endpoint can't be reached. `lastSuccessAt` is the time of the
 * last success; null if there was none.
 */
export function loseConnectivity(
  deps: CommandDeps,
  { endpoint_id, name, settings }: Endpoint,
  outage: { lastSuccessAt: string | null; error: ConnectivityLost['error'] },
  cause: Cause,
): Promise<Handled<Endpoint>> {
  const data = {
    endpoint_id,
    name,
    protocol: settings.protocol,
    host: hostOf(settings),
    last_success_at: outage.lastSuccessAt,
    error: outage.error,
  };
  const command = (now: string): EndpointCommand => ({
    type: 'lose_connectivity',
    data: { ...data, detected_at: now },
  });
  return changeEndpoint(deps, endpoint_id, command, cause);
}

/** Records that an outage is over. Does nothing if there is none. */
export function restoreConnectivity(
  deps: CommandDeps,
  endpointId: string,
  cause: Cause,
): Promise<Handled<Endpoint>> {
  return changeEndpoint(deps, endpointId, (now) => ({ type: 'restore_connectivity', now }), cause);
}

/**
 * Removes an endpoint. Throws `endpoint_in_use` while open transfers, active flows or batches that
 * are being created use it, and `precondition_failed` if `onlyAt` lacks the revision of the
 * endpoint.
 */
export async function removeEndpoint(
  deps: CommandDeps,
  endpointId: string,
  cause: Cause,
  onlyAt?: readonly number[],
): Promise<void> {
  const stream = streamName('endpoint', endpointId);
  const known = await load(deps.store, endpointDecider, stream);
  // Before the transfers: a client would end them, and only then learn that its view is outdated.
  requireRevision(stream, known.revision, onlyAt);
  const open = await deps.openTransfersOf(endpointId);
  if (open.length > 0) {
    throw new DomainError(
      'endpoint_in_use',
      `Open transfers use this endpoint: ${open.join(', ')}. Wait for their end or cancel ` +
        'them, then remove it',
      { transfer_ids: open },
    );
  }
  await requireNoFlow(deps, endpointId);
  await requireNoBatch(deps, endpointId);
  const { position } = await handle(
    deps.store,
    endpointDecider,
    stream,
    { type: 'remove' },
    cause,
    { onlyAt, known },
  );
  await untilInEffect(deps, position);
}

/** Throws `endpoint_in_use` if active flows use the endpoint: they could list or copy no more. */
async function requireNoFlow(deps: CommandDeps, endpointId: string): Promise<void> {
  await requireShown(deps, 'flows');
  const [flows, endpoints] = await Promise.all([deps.activeFlows(), deps.endpoints()]);
  const using = flows.filter((flow) => usesEndpoint(flow, endpointId, endpoints));
  if (using.length === 0) return;
  const names = using.map(({ name, flow_id }) => `${name} (${flow_id})`);
  throw new DomainError(
    'endpoint_in_use',
    `Active flows use this endpoint: ${named(names)}. Pause or remove them, then remove it`,
  );
}

/** Throws `endpoint_in_use` if a batch uses the endpoint that has not created its transfers yet. */
async function requireNoBatch(deps: CommandDeps, endpointId: string): Promise<void> {
  await requireShown(deps, 'batches');
  const using = await deps.batchesUsing(endpointId);
  if (using.length > 0)
    throw new DomainError(
      'endpoint_in_use',
      `Batches that are being created use this endpoint: ${named(using)}. Wait until they are open ` +
        'or cancel them, then remove it',
    );
}

/** Throws `unavailable` if a read model does not show yet what may use an endpoint. */
async function requireShown(deps: CommandDeps, projection: 'flows' | 'batches'): Promise<void> {
  if (await deps.catchUp(projection)) return;
  throw new DomainError(
    'unavailable',
    `The newest ${projection}, which may use the endpoint, are not shown yet: repeat the request`,
  );
}

/** Returns the first of these names, and how many others there are. */
function named(names: string[]): string {
  const others = names.length - NAMED;
  return `${names.slice(0, NAMED).join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
}

/** Returns when the command is in effect. Throws `not_found` for a removed endpoint. */
async function changeEndpoint(
  deps: CommandDeps,
  endpointId: string,
  command: Timed<EndpointCommand>,
  cause: Cause,
): Promise<Handled<Endpoint>> {
  const { state, ...handled } = await handle(
    deps.store,
    endpointDecider,
    streamName('endpoint', endpointId),
    command,
    cause,
    { unless: ofRequest(cause) },
  );
  if (state.status !== 'configured') throw notFound('endpoint');
  await untilInEffect(deps, handled.position);
  return { state, ...handled };
}
