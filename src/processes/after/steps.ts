/*
 * One step after a transfer: the marker beside the destination, or what becomes of the source.
 */
import { createHash } from 'node:crypto';
import { commitAlways } from '../../adapters/files/commit.ts';
import { heldPaths } from '../../adapters/files/part-name.ts';
import {
  type Disposed,
  type FileEndpoint,
  FileError,
  type FileIdentity,
} from '../../adapters/files/port.ts';
import type {
  AfterEvent,
  AfterReason,
  AfterStep,
  DescribedFile,
  MarkerEvent,
  SourceEvent,
  SourceTaken,
} from '../../domain/transfers/after.ts';
import { markerOf, movedTo } from '../../domain/transfers/after-places.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog/queries.ts';
import { type EndpointPool, withEndpoint } from '../endpoints/pool.ts';

/** An event that gets its time when it is appended. */
export type At<Event> = (now: string) => Event;

export type Completed = Extract<Transfer, { status: 'completed' }>;

/** The file of a step: its endpoint, and the path there. */
export interface StepFile {
  configured: ConfiguredEndpoint;
  path: string;
}

const EMPTY_SHA256 = createHash('sha256').digest('hex');
/** The part of a marker has one name for all tries: a try after a crash replaces what it left. */
const MARKER_CLAIM = 'marker';

const CHANGED = 'The source is not the file that was copied';
const CHANGED_SINCE = `${CHANGED}. An earlier try, which was interrupted, may have taken that one`;

/**
 * Returns the file of the next step. Null if the endpoint of the copy matches it no longer, or if
 * the account may not use that endpoint: another one may be another server, on which the step would
 * hit a file that has nothing to do with the transfer. An endpoint that was not recorded is not
 * compared.
 */
export function fileOf(
  transfer: Completed,
  step: AfterStep,
  endpoints: readonly ConfiguredEndpoint[],
): StepFile | null {
  const { account_id, source_endpoint_id, destination_endpoint_id } = transfer.facts;
  const uri = parseTransferUri(subjectOf(transfer, step), 'uri');
  const match = matchEndpoint(uri, endpoints, account_id);
  if (match === null) return null;
  const recorded = step === 'marker' ? destination_endpoint_id : source_endpoint_id;
  if (recorded != null && recorded !== match.endpoint.endpoint_id) return null;
  return { configured: match.endpoint, path: match.path };
}

/** Returns the file that the next step writes, deletes or moves. */
export function subjectOf(transfer: Completed, step: AfterStep): string {
  const { source, destination, after } = transfer.facts;
  return step === 'marker' && after ? (markerOf(destination, after) ?? destination) : source;
}

/**
 * Writes the marker. An empty file that has its name counts as the marker: an earlier try may have
 * written it. Throws FileError. The part is then removed, or the error is of the server as a whole.
 */
export async function writeMarker(
  destinations: EndpointPool,
  transfer: Completed,
  { configured, path }: StepFile,
  signal: AbortSignal,
): Promise<At<MarkerEvent>> {
  const { transfer_id: transferId } = transfer.facts;
  await withEndpoint(destinations, configured, async (endpoint) => {
    try {
      await writeEmpty(endpoint, path, { transferId, overwrite: configured.overwrite, signal });
    } catch (error) {
      const mayHavePart = !(error instanceof FileError && error.ofServer);
      if (mayHavePart) await removePart(endpoint, path, transferId, signal);
      const exists = error instanceof FileError && error.code === 'destination_exists';
      if (!exists || !(await isEmpty(endpoint, path, signal).catch(() => false))) throw error;
    }
  });
  const marker = subjectOf(transfer, 'marker');
  return (now) => ({ type: 'transfer.marker_written', data: { marker, written_at: now } });
}

async function writeEmpty(
  endpoint: FileEndpoint,
  path: string,
  options: { transferId: string; overwrite: boolean; signal: AbortSignal },
): Promise<void> {
  const empty = { claimId: MARKER_CLAIM, size: 0, resume: null };
  const file = await endpoint.openDestination(path, { ...options, ...empty });
  try {
    await commitAlways(file, { size: 0, sha256: EMPTY_SHA256 });
  } finally {
    await file.close();
  }
}

/**
 * Removes the part of a marker that was not written: once the step is given up, nothing else would.
 * Throws an error of the server as a whole if it is down or the link breaks, so that the step is
 * retried until the part can be removed.
 */
async function removePart(
  endpoint: FileEndpoint,
  path: string,
  transferId: string,
  signal: AbortSignal,
): Promise<void> {
  await endpoint
    .removeLeftovers(path, { transferId, resume: null, signal })
    .catch((error: unknown) => {
      if (error instanceof FileError && error.ofServer) throw error;
      if (error instanceof FileError && isNetworkFailure(error.code))
        throw new FileError(error.code, 'connect', error.message, { cause: error });
    });
}

async function isEmpty(
  endpoint: FileEndpoint,
  path: string,
  signal: AbortSignal,
): Promise<boolean> {
  const file = await endpoint.openSource(path, signal);
  await file.close();
  return file.identity.size === 0;
}

/**
 * Deletes or moves the source, if it is the file that was copied. `begun` says that an earlier try
 * may have done so, and `tried` is the number of this one. Throws FileError.
 */
export async function settleSource(
  sources: EndpointPool,
  transfer: Completed,
  { configured, path }: StepFile,
  {
    begun,
    tried,
    version,
    signal,
  }: { begun: boolean; tried: number; version: string; signal: AbortSignal },
): Promise<At<SourceEvent>> {
  const { transfer_id, source, after } = transfer.facts;
  const action = typeof after?.source === 'object' ? after.source : null;
  const identity = { size: transfer.facts.size_bytes as number, version };
  const folder = path.slice(0, path.lastIndexOf('/') + 1);
  const moveTo = action && folder + action.move_to;
  const disposed = await withEndpoint(sources, configured, (endpoint) =>
    endpoint.dispose(path, { transferId: transfer_id, identity, moveTo, tried, signal }),
  );
  const taken = { source_file: described(identity), confirmed: disposed.outcome !== 'gone' };
  const name = nameAfter(disposed);
  if (action && name !== null && (taken.confirmed || begun)) {
    const moved = { ...taken, moved_to: movedTo(source, action, name) };
    return (now) => ({ type: 'transfer.source_moved', data: { ...moved, moved_at: now } });
  }
  switch (disposed.outcome) {
    case 'changed':
      return kept(
        { code: 'source_changed', message: begun ? CHANGED_SINCE : CHANGED },
        described(disposed.found),
      );
    case 'gone':
      if (begun && !action) return deleted(taken);
      return kept({ code: 'source_not_found', message: 'The source is not there any more' });
    default:
      return deleted(taken);
  }
}

/** Why a source may still have a hidden name. `refused` is true if the server answered so. */
export interface NotRestored {
  refused: boolean;
  message: string;
}

/**
 * Gives the source its name back, if one of the tries has left it under a hidden one. Returns why
 * that is not certain. Null if the source has its name.
 */
export async function restoreSource(
  sources: EndpointPool,
  transfer: Completed,
  { configured, path }: StepFile,
  tried: number,
  signal: AbortSignal,
): Promise<NotRestored | null> {
  const { transfer_id: transferId } = transfer.facts;
  const where = hiddenAs(heldPaths(path, transferId, tried));
  try {
    const restored = await withEndpoint(sources, configured, (endpoint) =>
      Promise.resolve(endpoint.restoreSource?.(path, { transferId, tried, signal }) ?? true),
    );
    return restored ? null : { refused: false, message: 'No file has the name of the source' };
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    const refused = !error.ofServer && !isNetworkFailure(error.code);
    return { refused, message: `${where}: ${error.message}` };
  }
}

/**
 * Says where a source may be that nothing can restore: a try of the step has begun, and its endpoint
 * is gone.
 */
export function whereHidden({ facts: { source, transfer_id } }: Completed): string {
  return hiddenAs(heldPaths(parseTransferUri(source, 'source').path, transfer_id));
}

function hiddenAs(names: string[]): string {
  return `It may have the name ${names.join(' or ')}`;
}

/** Returns the name of a moved source. Null if it was not moved. */
function nameAfter(disposed: Disposed): string | null {
  if (disposed.outcome === 'moved') return disposed.name;
  return disposed.outcome === 'gone' ? disposed.movedAs : null;
}

function deleted(taken: SourceTaken): At<SourceEvent> {
  return (now) => ({ type: 'transfer.source_deleted', data: { ...taken, deleted_at: now } });
}

function kept(reason: AfterReason, found: DescribedFile | null = null): At<SourceEvent> {
  return (now) => ({ type: 'transfer.source_kept', data: { reason, found, kept_at: now } });
}

/** Returns the event of a step that is given up. */
export function givenUp(transfer: Completed, step: AfterStep, reason: AfterReason): At<AfterEvent> {
  if (step === 'source') return kept(reason);
  const failed = { marker: subjectOf(transfer, 'marker'), reason };
  return (now) => ({ type: 'transfer.marker_failed', data: { ...failed, failed_at: now } });
}

function described({ size, version }: FileIdentity): DescribedFile {
  return { size_bytes: size, version };
}
