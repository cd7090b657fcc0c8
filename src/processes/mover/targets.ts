/*
 * The two sides of an attempt: which endpoints match its URIs, and which of them a failure blames.
 */
import { isDeepStrictEqual } from 'node:util';
import { FileError } from '../../adapters/files/port.ts';
import {
  type AttemptFailure,
  AUTHENTICATION_FAILED,
  isNetworkFailure,
  TRANSFER_ERRORS,
} from '../../domain/transfers/errors.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { type ConfiguredEndpoint, findEndpoint } from '../../projections/catalog/queries.ts';
import type { Stores } from '../../projections/fold.ts';
import type { Claim } from '../dispatch/job-table/leases.ts';
import type { Catalog } from '../endpoints/catalog.ts';
import { AttemptError } from './failure.ts';

export interface Target {
  configured: ConfiguredEndpoint;
  path: string;
  /** True if the sign-in is on hold after a refusal. */
  held: boolean;
}

/** Each side is null if no endpoint that the account may use matches. */
export interface Targets {
  source: Target | null;
  destination: Target | null;
}

/** Finds the endpoints of a claimed transfer. */
export function targetsOf({ source, destination, accountId }: Claim, catalog: Catalog): Targets {
  return {
    source: targetOf(source, catalog, accountId),
    destination: targetOf(destination, catalog, accountId),
  };
}

function targetOf(uri: string, { endpoints, held }: Catalog, accountId: string): Target | null {
  const match = matchEndpoint(parseTransferUri(uri, 'uri'), endpoints, accountId);
  return (
    match && {
      configured: match.endpoint,
      path: match.path,
      held: held.has(match.endpoint.endpoint_id),
    }
  );
}

/** Returns the source, or throws why no connection is tried. */
export function readySource({ source }: Targets): Target {
  if (!source) {
    const message = 'No endpoint that this account may use matches the source';
    throw new AttemptError({ code: 'source_endpoint_not_configured', message, phase: 'prepare' });
  }
  if (source.held)
    throw new AttemptError({
      code: 'auth_failed',
      message: AUTHENTICATION_FAILED,
      phase: 'source_sign_in',
    });
  return source;
}

/** Returns the destination, or throws why no connection is tried. */
export function readyDestination({ destination }: Targets): Target {
  if (!destination) {
    throw new AttemptError({
      code: 'endpoint_removed',
      message: 'The endpoint of the destination is gone',
      phase: 'prepare',
    });
  }
  if (destination.held)
    throw new AttemptError({
      code: 'auth_failed',
      message: AUTHENTICATION_FAILED,
      phase: 'destination_sign_in',
    });
  return destination;
}

/** Returns the side that has just refused a sign-in. Null if the sign-in was on hold. */
export function refusedSignIn({ source, destination }: Targets, phase: string): Target | null {
  const side = phase === 'source_sign_in' ? source : destination;
  return side && !side.held ? side : null;
}

/** Returns the side that has no connection to spare. Null after any other error. */
export function busyTarget({ source, destination }: Targets, error: unknown): Target | null {
  if (!(error instanceof AttemptError && error.cause instanceof FileError && error.cause.busy))
    return null;
  const { phase } = error.failure;
  return phase === 'read' || phase.startsWith('source_') ? source : destination;
}

/**
 * Returns the side whose server ended a new connection and did not say why. Null after any other
 * failure. Some servers do so when they have all connections that they accept.
 */
export function refusingTarget(targets: Targets, { code, phase }: AttemptFailure): Target | null {
  return code === 'connection_failed' ? connectingTarget(targets, phase) : null;
}

/** Returns the side to which no connection was open yet. */
function connectingTarget({ source, destination }: Targets, phase: string): Target | null {
  const [, side] = /^(source|destination)_(?:connect|sign_in)$/.exec(phase) ?? [];
  return side === 'source' ? source : side === 'destination' ? destination : null;
}

/** Returns the side that could not be connected. Null after any other failure. */
export function notConnected(
  { source, destination }: Targets,
  { code, phase }: AttemptFailure,
): Target | null {
  if (!isNetworkFailure(code)) return null;
  if (phase === 'source_connect') return source;
  return phase === 'destination_connect' ? destination : null;
}

/**
 * Returns whether an attempt failed because its endpoint has changed since: the server rejects the
 * older credentials, or the older configuration rejects the server. Another attempt has the new
 * ones.
 */
export async function isOutdated(
  stores: Stores,
  targets: Targets,
  { code, phase }: AttemptFailure,
): Promise<boolean> {
  const target = connectingTarget(targets, phase);
  if (!target || TRANSFER_ERRORS[code].retryable) return false;
  const { endpoint_id, settings, credentials_record } = target.configured;
  const now = await findEndpoint(stores, endpoint_id);
  return (
    now !== null &&
    (now.credentials_record !== credentials_record || !isDeepStrictEqual(now.settings, settings))
  );
}

/** Returns the endpoint and its revision, for the event. Null if none matches. */
export function version(match: Target | null) {
  return match && { id: match.configured.endpoint_id, revision: match.configured.revision };
}
