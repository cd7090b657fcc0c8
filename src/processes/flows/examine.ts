import type { FileEntry } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { RoutedItem } from '../../domain/batches/items.ts';
import { parseDuration } from '../../domain/durations.ts';
import { NOT_ON_AN_ENDPOINT } from '../../domain/endpoints/route.ts';
import { type Flow, fileKey, type ListingError } from '../../domain/flows/flow.ts';
import { destinationOf } from '../../domain/flows/template.ts';
import { timeOf } from '../../domain/ids.ts';
import { encodePath, matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { type KnownFile, knownFiles } from '../../projections/flows/queries.ts';
import { findFiles } from '../batches/folder.ts';
import { toItem } from '../batches/listing.ts';
import type { Found } from '../batches/walk.ts';
import type { Destinations } from './destinations.ts';
import { sightFiles } from './table.ts';

/** Files that are compared with the read model at a time. */
const AT_ONCE = 500;
/** How long after its failure a file is taken again, in milliseconds, by the number of attempts. */
export const RETRY_AFTER_MS = [60_000, 600_000, 3_600_000] as const;

export interface ExamineDeps {
  sql: Sql;
  commands: CommandDeps;
}

/** What a run does with a file of the folder. */
export type Decision =
  /** `reason` says why for people. */
  | { decision: 'take'; reason: string; item: RoutedItem }
  /** `again` is when a later look is likely to take it, in epoch ms. Null if nothing says when. */
  | { decision: 'wait' | 'taken'; reason: string; again: number | null };

export type Examined =
  | ({ path: string; entry: FileEntry | null } & Decision)
  /** `unnameable` as in `Found`. */
  | { path: string; failure: ListingError; unnameable?: true };

export interface Examination {
  /** Where an interrupted listing continues. */
  through: string | null;
  /** The time of the run, for the names of destinations. */
  at: Date;
  /** Of the files that the run has so far. Absent if nothing is to be written. */
  destinations?: Destinations;
  /** False for a dry run: files that it sees do not count as seen. */
  remember: boolean;
  /** False for a dry run: a user waits for it. Lists a folder again whose server does not answer. */
  retries: boolean;
}

/**
 * Yields the files of a flow's folder with what a run does with each, in the order of their paths.
 * The read model of flows must show what runs have taken so far.
 */
export async function* examine(
  deps: ExamineDeps,
  flow: Flow,
  { through, at, destinations, remember, retries }: Examination,
  stop: AbortSignal,
): AsyncGenerator<Examined, void, void> {
  const { commands } = deps;
  const { account_id, source, ready, after } = flow;
  const endpoints = await commands.endpoints();
  const time_zone =
    flow.trigger !== null && 'cron' in flow.trigger ? flow.trigger.time_zone : 'UTC';
  const urisOf = (path: string) => ({
    source_uri: sourceUriOf(flow, path),
    destination_uri: destinationOf(flow.destination_uri, { flow: flow.name, path, at, time_zone }),
  });
  const sample = parseTransferUri(urisOf('name').destination_uri, 'destination_uri');
  if (!matchEndpoint(sample, endpoints, account_id)) {
    const message = `The destination ${NOT_ON_AN_ENDPOINT}`;
    yield { path: '', failure: { code: 'endpoint_not_configured', message, folder: '' } };
    return;
  }
  const folder = {
    ...source,
    retries,
    times: true,
    marker: 'marker' in ready ? ready.marker : null,
  };
  const servers = { vault: commands.vault, sql: deps.sql };
  const files = findFiles(servers, endpoints, account_id, folder, through, stop);
  for await (const found of inChunks(files)) yield* await decideOn(found);

  async function decideOn(found: Found[]): Promise<Examined[]> {
    const versions = found.map((one) => versionIn(flow, one));
    const olderKeys = found.map((one) =>
      one.untimed ? versionIn(flow, withoutTime(one)).key : null,
    );
    const rows = await knownFiles(deps.sql, flow.flow_id, [
      ...versions.map(({ key }) => key),
      ...olderKeys.filter((key) => key !== null),
    ]);
    const known = found.map(({ entry }, i) => {
      const older = rows.get(olderKeys[i] ?? '');
      return rows.get(versions[i]?.key ?? '') ?? (isOf(older, entry) ? older : undefined);
    });
    const unknown = versions.map(({ key }) => key).filter((_, i) => known[i] === undefined);
    const ages =
      'unchanged_for' in ready && parseDuration(ready.unchanged_for) > 0
        ? await sightFiles(deps.sql, flow.flow_id, unknown, remember)
        : null;
    return found.map((one, i): Examined => {
      const { path, entry = null, error, unnameable } = one;
      const { key, version } = versions[i] as (typeof versions)[number];
      if (entry === null && error)
        return { path, failure: { ...error, folder: path }, ...(unnameable && { unnameable }) };
      const before = known[i];
      const decision = before
        ? ofKnown(before, Date.now())
        : ofNew(one, flow, ages && (ages.get(key) ?? 0));
      if (decision.decision !== 'take') return { path, entry, ...decision };
      const batch = { account_id, ...(after && { after }) };
      const own = toItem(one, source.uri, endpoints, batch, urisOf);
      const item = {
        ...(destinations?.take(own) ?? own),
        version,
        ...(before?.transfer_id && { retry_of: before.transfer_id }),
      };
      return { path, entry, ...decision, item };
    });
  }
}

/** A decision without the item of a file to take, which the caller adds. */
type Undecided = Exclude<Decision, { decision: 'take' }> | { decision: 'take'; reason: string };

function ofKnown(file: KnownFile, now: number): Undecided {
  const { run_id, transfer_id, status, failed_at, error_code, attempts, retried } = file;
  const taken = (reason: string, again: number | null = null) =>
    ({ decision: 'taken', reason, again }) as const;
  if (run_id === null) return taken('Skipped: it was there when the flow was created');
  if (transfer_id === null) return taken(`Rejected by ${run_id}: it cannot become a transfer`);
  if (status !== 'failed') return taken(`Taken by ${run_id}`);
  if (retried) return taken(`Taken by ${run_id}, failed, and retried`);
  if (error_code === 'aborted_by_operator')
    return taken(`Taken by ${run_id}, and ended by an operator: retry ${transfer_id}`);
  const delay = RETRY_AFTER_MS[attempts - 1];
  if (delay === undefined) return taken(`Failed ${attempts} times: retry ${transfer_id}`);
  const again = Date.parse(failed_at ?? '') + delay;
  if (now >= again) return { decision: 'take', reason: `Failed in ${run_id}` };
  const when = new Date(again).toISOString();
  return taken(`Failed in ${run_id}, and is taken again after ${when}`, again);
}

/** `age`: for how long the version has been seen, in milliseconds. Null if that does not matter. */
function ofNew({ entry, marker, error }: Found, { ready }: Flow, age: number | null): Undecided {
  if (error) return { decision: 'take', reason: error.message };
  if ('marker' in ready) {
    if (marker === undefined)
      return { decision: 'wait', reason: `Waits for its ${ready.marker} file`, again: null };
    if (isOlder(marker, entry))
      return { decision: 'wait', reason: `Is newer than its ${ready.marker} file`, again: null };
    return { decision: 'take', reason: 'New' };
  }
  const left = age === null ? 0 : parseDuration(ready.unchanged_for) - age;
  return left <= 0
    ? { decision: 'take', reason: 'New' }
    : {
        decision: 'wait',
        reason: `Changed, or first seen, less than ${ready.unchanged_for} ago`,
        again: Date.now() + left,
      };
}

function isOlder(marker: FileEntry, file: FileEntry | undefined): boolean {
  const [its, that] = [marker.modified_at, file?.modified_at ?? null];
  return its !== null && that !== null && Date.parse(its) < Date.parse(that);
}

/** Returns the URI of a file. Throws for a name that is not valid Unicode: it has none. */
function sourceUriOf({ source }: Flow, path: string): string {
  return source.uri + encodePath(path);
}

/** Returns the version of a file, and its name in the read model. */
export function versionIn(
  flow: Flow,
  { path, entry }: Found,
): { source_uri: string; version: string; key: string } {
  const size = entry?.size ?? '-';
  const version = `${size} ${entry?.etag ?? entry?.modified_at ?? '-'}`;
  let source_uri: string;
  try {
    source_uri = sourceUriOf(flow, path);
  } catch {
    source_uri = flow.source.uri;
  }
  return { source_uri, version, key: fileKey(source_uri, version) };
}

function withoutTime({ path, entry }: Found): Found {
  return { path, ...(entry && { entry: { ...entry, modified_at: null } }) };
}

/**
 * Returns whether a row without a time is of this version of a file. Earlier releases did not ask for
 * a time that a listing lacks.
 */
function isOf(row: KnownFile | undefined, entry: FileEntry | undefined): boolean {
  if (!row?.run_id || !entry?.modified_at) return row !== undefined;
  return Date.parse(entry.modified_at) <= timeOf(row.run_id);
}

async function* inChunks(found: AsyncIterable<Found>): AsyncGenerator<Found[], void, void> {
  let chunk: Found[] = [];
  for await (const one of found)
    if (chunk.push(one) === AT_ONCE) {
      yield chunk;
      chunk = [];
    }
  if (chunk.length > 0) yield chunk;
}
