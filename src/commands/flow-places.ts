import { createFilter, GlobTooSlow } from '../adapters/files/globs.ts';
import { shareFiles } from '../domain/endpoints/audience.ts';
import type { Endpoint } from '../domain/endpoints/endpoint.ts';
import { NOT_ON_AN_ENDPOINT, routeOf } from '../domain/endpoints/route.ts';
import { fieldError } from '../domain/errors.ts';
import type { FlowReady, FlowSettings, FlowSource } from '../domain/flows/flow.ts';
import { destinationOf } from '../domain/flows/template.ts';
import { refuseMovesInto } from '../domain/transfers/after.ts';
import { markerOf } from '../domain/transfers/after-places.ts';
import { encodePath, matchEndpoint, parseTransferUri, placesOf } from '../domain/uri.ts';
import type { CommandDeps } from './deps.ts';

/** The settings that say where a flow reads and writes. */
type Places = Pick<FlowSettings, 'source' | 'ready' | 'destination_uri' | 'name' | 'after'>;

/**
 * Throws `endpoint_not_configured` for a source or destination on no endpoint of the account, and
 * `validation_failed` if no file can become a transfer, or if the flow takes what it writes.
 */
export async function checkPlaces(
  deps: CommandDeps,
  accountId: string,
  flow: Places,
): Promise<void> {
  const { source, after } = flow;
  refuseMovesInto(source.recursive, after);
  const endpoints = await deps.endpoints();
  if (!matchEndpoint(parseTransferUri(source.uri, 'source.uri'), endpoints, accountId))
    throw fieldError('source.uri', NOT_ON_AN_ENDPOINT, 'endpoint_not_configured');
  const takes = takesPath(source);
  const samples: string[] = [];
  for (const path of pathsLike(source)) if (await takes(path)) samples.push(path);
  const { source_uri, destination_uri } = urisIn(flow, samples[0] ?? 'name');
  // Before the route names `source_uri`, which is no field of a flow.
  parseTransferUri(source_uri, 'source.pattern');
  routeOf({ source_uri, destination_uri, after: after ?? undefined }, endpoints, accountId);
  for (const sample of samples) await refuseLoop(flow, sample, takes, endpoints, accountId);
}

/**
 * Throws `validation_failed` for another spelling of a flow's source. A version of a file is known by
 * its URI: the flow would take all files again, also those that it skipped.
 */
export async function refuseOtherSpelling(
  deps: CommandDeps,
  accountId: string,
  before: FlowSource,
  source: FlowSource,
): Promise<void> {
  if (source.uri === before.uri) return;
  const endpoints = await deps.endpoints();
  const [old, now] = [before.uri, source.uri].map((uri) =>
    matchEndpoint(parseTransferUri(uri, 'source.uri'), endpoints, accountId),
  );
  if (!old || !now || old.path !== now.path) return;
  if (old.endpoint.endpoint_id === now.endpoint.endpoint_id)
    throw fieldError(
      'source.uri',
      `means the folder of ${before.uri}: the flow would take all of its files again. Keep the ` +
        'old spelling, or create a flow that starts with new_only',
    );
}

function urisIn({ source, name, destination_uri }: Places, path: string) {
  const values = { flow: name, path, at: new Date(), time_zone: 'UTC' };
  return {
    source_uri: source.uri + encodePath(path),
    destination_uri: destinationOf(destination_uri, values),
  };
}

type Takes = (path: string) => Promise<boolean>;

/**
 * Throws if the flow would take a file that it writes when it takes the sample: it could copy its
 * own copies without end.
 */
async function refuseLoop(
  flow: Places,
  sample: string,
  takes: Takes,
  endpoints: readonly Endpoint[],
  accountId: string,
): Promise<void> {
  const { source, ready, after } = flow;
  const { source_uri, destination_uri } = urisIn(flow, sample);
  const { destination } = placesOf(source_uri, destination_uri);
  const written = {
    destination_uri: destination,
    'after.destination_marker': after ? markerOf(destination, after) : null,
  };
  for (const [field, uri] of Object.entries(written)) {
    const path = uri === null ? null : pathIn(source, uri, endpoints, accountId);
    if (path === null || !isReady(path, ready, after?.destination_marker ?? null)) continue;
    if (await takes(path))
      throw fieldError(
        field,
        `must not lead to files that the flow takes, such as ${path} in its source: ` +
          'use another folder, or leave them out with pattern or exclude',
      );
  }
}

/** Returns a function that says whether the globs of a source take a path: no if they are slow. */
function takesPath(source: FlowSource): Takes {
  const filter = createFilter(source);
  return async (path) => {
    try {
      return (await filter([path]))[0] === true;
    } catch (error) {
      if (error instanceof GlobTooSlow) return false;
      throw error;
    }
  };
}

/** Returns paths of files that the source may have. */
function pathsLike({ pattern, recursive }: FlowSource): string[] {
  const names = [nameLike(pattern), 'name'];
  return recursive ? [...names, ...names.map((name) => `folder/${name}`)] : names;
}

/** Returns a name that a glob is likely to match. */
function nameLike(glob: string): string {
  return glob
    .replaceAll('**/', '')
    .replace(/\{([^{},]*)[^{}]*\}/g, '$1')
    .replace(/\[([^\]])[^\]]*\]/gu, '$1')
    .replace(/\*+/g, 'name')
    .replaceAll('?', 'n');
}

/** Returns the path of a file below the source. Null if the source does not list it. */
function pathIn(
  { uri, recursive }: FlowSource,
  file: string,
  endpoints: readonly Endpoint[],
  accountId: string,
): string | null {
  const [folder, place] = [uri, file].map((text) =>
    matchEndpoint(parseTransferUri(text, 'destination_uri'), endpoints, accountId),
  );
  if (!folder || !place) return null;
  if (!shareFiles(folder.endpoint.settings, place.endpoint.settings)) return null;
  if (!place.path.startsWith(folder.path)) return null;
  const path = place.path.slice(folder.path.length);
  return recursive || !path.includes('/') ? path : null;
}

/** Returns whether a file that the flow writes can become ready. `marker` is beside each one. */
function isReady(path: string, ready: FlowReady, marker: string | null): boolean {
  return !('marker' in ready) || (ready.marker === marker && !path.endsWith(ready.marker));
}
