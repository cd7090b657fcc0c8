import type { Logger } from 'pino';
import type { KnownBatch } from '../../commands/batches.ts';
import {
  changeFlow,
  createBatchOfRun,
  flowAtStart,
  type KnownFlow,
  newRun,
} from '../../commands/flows.ts';
import type { Cause } from '../../commands/handle.ts';
import { MAX_FILES } from '../../domain/batches/batch.ts';
import { failureToReport } from '../../domain/flows/failures.ts';
import type {
  FilesSkipped,
  Flow,
  ListingError,
  OpenRun,
  RunReason,
} from '../../domain/flows/flow.ts';
import { type Listed, recordPages } from '../batches/listing.ts';
import { createDestinations, destinationsOf } from './destinations.ts';
import { type Examination, type ExamineDeps, examine, versionIn } from './examine.ts';
import { failingFolders, forgetLook, forgetUnseen, lastLooks, saveLook } from './table.ts';

/** Largest page of skipped files. Their URIs have at most 4 KiB. */
const SKIPPED_IN_PAGE = 32 * 1024;
/** Failures of one listing that are compared with those of the one before. */
const MOST_FAILURES = 1_000;
const ACTOR = 'system:flows';
/** How long a `new_only` flow waits that cannot list its folder. Each wait is twice as long. */
const SKIP_AGAIN_MS = { first: 5_000, longest: 300_000 };
/**
 * How long a listing that is not whole keeps files that it did not see. Longer than a file may have
 * to rest: one that is then listed again is not taken too early, but waits again.
 */
const UNSEEN_MS = 2 * 24 * 3_600_000;

export interface RunDeps extends ExamineDeps {
  logger: Logger;
}

/**
 * Lists the folder of a flow and takes what is ready and new. First finishes what another process
 * began: the files that a `new_only` flow skips, or an open run. Returns early if the signal
 * aborts, or if another process changes the flow: the next look then decides again.
 */
export async function runFlow(deps: RunDeps, flow: KnownFlow, stop: AbortSignal): Promise<void> {
  const { state } = flow;
  if (state.skipping !== null) return skipFiles(deps, flow, stop);
  const listing = createListing(deps, state);
  const open = state.open_runs.find(({ listed }) => !listed);
  const after = open
    ? await continueRun(deps, flow, open, listing, stop)
    : await takeFiles(deps, flow, listing, stop);
  if (after === null || stop.aborted) return;
  const runId = open?.run_id ?? listing.run.run_id;
  const isWhole = open === undefined && listing.isAtEnd();
  const error = await listing.error();
  // A part of the folder says nothing about a failure in the rest.
  const { position } =
    error !== null || isWhole ? await noteListing(deps, after, runId, error) : after;
  await listing.save(isWhole);
  await deps.commands.waitFor('flows', position);
}

/** Records how a listing ended, if that is news. */
function noteListing(
  { commands }: RunDeps,
  known: KnownFlow,
  run_id: string,
  error: ListingError | null,
): Promise<KnownFlow> {
  const command = (now: string) => ({ type: 'note_listing', error, run_id, now }) as const;
  const { state } = known;
  return changeFlow(commands, state.flow_id, command, causeOf(state, run_id), { known });
}

type Listing = ReturnType<typeof createListing>;

/** What a listing has found so far. */
function createListing({ sql, commands }: RunDeps, { flow_id, requested, failing }: Flow) {
  const began = new Date();
  let waiting = 0;
  let nextAt = Number.POSITIVE_INFINITY;
  const failures: ListingError[] = [];
  let isFull = false;
  /** False if the batch took no more files, as after a cancellation. */
  let isAtEnd = false;
  return {
    began,
    run: newRun(requested?.run_id),
    reason: (requested ? 'request' : 'schedule') as RunReason,
    /** Returns what to report of the folders that could not be listed; null if there is none. */
    async error(): Promise<ListingError | null> {
      const before = failures.length > 0 ? await failingFolders(sql, flow_id) : [];
      return failureToReport(failures, failing?.error ?? null, before);
    },
    isAtEnd: () => isAtEnd,

    /** Yields the files that the run takes, after `items` that it has. A batch has a limit. */
    async *items(
      flow: Flow,
      { items, ...begin }: Pick<Examination, 'at' | 'through' | 'destinations'> & { items: number },
      stop: AbortSignal,
    ): AsyncGenerator<Listed, void, void> {
      let taken = items;
      const wanted = { ...begin, remember: true, retries: true };
      for await (const one of examine({ sql, commands }, flow, wanted, stop)) {
        if ('failure' in one) {
          if (failures.length < MOST_FAILURES) failures.push(one.failure);
        } else if (one.decision === 'take') {
          isFull = taken++ === MAX_FILES;
          if (isFull) return;
          yield { item: one.item, through: one.path };
        } else {
          if (one.decision === 'wait') waiting++;
          nextAt = Math.min(nextAt, one.again ?? Number.POSITIVE_INFINITY);
        }
      }
      isAtEnd = true;
    },

    /** Records the look. `whole` means that it went through the folder from its start to its end. */
    async save(whole: boolean): Promise<void> {
      // The next look comes at once: for the files beyond the limit of a batch, or for those that a
      // continued run has passed over and that are new or ready by now.
      const again = isFull || (isAtEnd && !whole) ? Date.now() : nextAt;
      const look = {
        began_at: began.toISOString(),
        succeeded_at: failures.length === 0 ? new Date().toISOString() : null,
        waiting,
        look_again_at: Number.isFinite(again) ? new Date(again).toISOString() : null,
      };
      await saveLook(sql, flow_id, look, whole ? failures.map(({ folder }) => folder) : null);
      // A part of the folder may fail for good, so a listing that is not whole also removes rows.
      const sawAll = whole && failures.length === 0;
      const unseenMs = Date.now() - began.getTime() + (sawAll ? 0 : UNSEEN_MS);
      await forgetUnseen(sql, flow_id, unseenMs);
    },
  };
}

/**
 * Starts a run if there is a file to take, and lists all of them. The append that starts it names
 * the revision on which the files were compared with those of earlier runs: if another process has
 * started a run meanwhile, it is rejected. Returns null if nothing more is to be said.
 */
async function takeFiles(
  { commands, logger }: RunDeps,
  flow: KnownFlow,
  listing: Listing,
  stop: AbortSignal,
): Promise<KnownFlow | null> {
  const { state } = flow;
  const destinations = createDestinations(state);
  const begin = { at: listing.began, through: null, destinations, items: 0 };
  const items = listing.items(state, begin, stop);
  try {
    const first = await items.next();
    if (stop.aborted) return null;
    if (first.done) return flow;
    const data = {
      ...listing.run,
      reason: listing.reason,
      started_at: listing.began.toISOString(),
    };
    const command = { type: 'start_run', seen: flow.revision, data } as const;
    const cause = causeOf(state, data.run_id);
    const started = await changeFlow(commands, state.flow_id, command, cause, { known: flow });
    if (started.events.length === 0) return null;
    logger.info({ flow_id: state.flow_id, run_id: data.run_id }, 'a run of a flow takes files');
    const batch = await createBatchOfRun(commands, started.state, data, cause, true);
    // Another process has continued the run. What was compared here lacks the files that it takes.
    if (batch.events.length === 0) return null;
    return await list(commands, started, batch, data, withFirst(first.value, items), stop);
  } finally {
    await items.return();
  }
}

/**
 * Continues the listing of an open run, after the files that its batch has. The settings are those
 * with which it began: its batch says nothing about the files of another folder.
 */
async function continueRun(
  { commands }: RunDeps,
  flow: KnownFlow,
  run: OpenRun,
  listing: Listing,
  stop: AbortSignal,
): Promise<KnownFlow | null> {
  const state = await flowAtStart(commands, flow.state.flow_id, run.run_id);
  const cause = causeOf(state, run.run_id);
  const batch = await createBatchOfRun(commands, state, run, cause, false);
  // The files of its pages must count as taken.
  if (!(await commands.waitFor('flows', batch.position))) return null;
  const { through, items } = batch.state;
  const destinations = await destinationsOf(commands, state, run.batch_id);
  const begin = { at: new Date(run.started_at), through, destinations, items };
  const rest = listing.items(state, begin, stop);
  return list(commands, flow, batch, run, rest, stop);
}

/** Records the files in the batch of a run. Returns null if the list has no end yet. */
async function list(
  commands: RunDeps['commands'],
  flow: KnownFlow,
  batch: KnownBatch,
  { run_id }: Pick<OpenRun, 'run_id'>,
  files: AsyncIterable<Listed>,
  stop: AbortSignal,
): Promise<KnownFlow | null> {
  const cause = causeOf(flow.state, run_id);
  const isWanted = batch.state.status === 'creating' && !batch.state.listed;
  const { state } = isWanted ? await recordPages(commands, batch, files, cause, stop) : batch;
  // A batch that was cancelled takes no more files.
  if (stop.aborted || (state.status === 'creating' && !state.listed)) return null;
  const command = (now: string) => ({ type: 'end_listing', run_id, now }) as const;
  return changeFlow(commands, flow.state.flow_id, command, cause, { known: flow });
}

async function* withFirst(
  first: Listed,
  rest: AsyncGenerator<Listed, void, void>,
): AsyncGenerator<Listed, void, void> {
  yield first;
  yield* rest;
}

/**
 * Records the versions that are in the folder of a `new_only` flow. They are never taken. If a
 * folder cannot be listed, the flow begins later: what is there must not count as new. Passes over
 * folders that no URI can name.
 */
async function skipFiles(deps: RunDeps, flow: KnownFlow, stop: AbortSignal): Promise<void> {
  const { commands } = deps;
  const { flow_id, skipping } = flow.state;
  let before = flow;
  let files: FilesSkipped['files'] = [];
  let through = skipping?.through ?? null;
  let bytes = 0;
  const began = new Date();
  const record = async (last: boolean) => {
    const { revision: seen } = before;
    const page = { files, through, last };
    const command = (now: string) =>
      ({ type: 'skip_files', seen, page: { ...page, skipped_at: now } }) as const;
    const after = await changeFlow(commands, flow_id, command, causeOf(before.state), {
      known: before,
    });
    before = after;
    files = [];
    bytes = 0;
    return after.events.length > 0;
  };
  const look = { through, at: began, remember: false, retries: true };
  for await (const one of examine(deps, flow.state, look, stop)) {
    if ('failure' in one) {
      if (one.unnameable) continue;
      const noted = await noteListing(deps, before, newRun().run_id, one.failure);
      const { source_uri } = versionIn(flow.state, { path: one.path });
      await skipLater(deps, flow_id, began, `${source_uri}: ${one.failure.message}`);
      await commands.waitFor('flows', noted.position);
      return;
    }
    const { path, entry } = one;
    const { source_uri, version } = versionIn(
      flow.state,
      entry === null ? { path } : { path, entry },
    );
    files.push({ source_uri, version });
    through = path;
    bytes += source_uri.length + version.length;
    if (bytes > SKIPPED_IN_PAGE && !(await record(false))) return;
  }
  if (stop.aborted || !(await record(true))) return;
  await forgetLook(deps.sql, flow_id);
  const { position } = await noteListing(deps, before, newRun().run_id, null);
  await commands.waitFor('flows', position);
}

/** Lets a `new_only` flow look again after twice its last wait. */
async function skipLater(
  { sql, logger }: RunDeps,
  flowId: string,
  began: Date,
  reason: string,
): Promise<void> {
  const last = (await lastLooks(sql, [flowId])).get(flowId);
  const waited = last?.look_again_at
    ? Date.parse(last.look_again_at) - Date.parse(last.began_at)
    : 0;
  const { first, longest } = SKIP_AGAIN_MS;
  const wait = Math.min(longest, Math.max(first, 2 * waited));
  const look_again_at = new Date(began.getTime() + wait).toISOString();
  const look = { began_at: began.toISOString(), succeeded_at: null, waiting: 0, look_again_at };
  await saveLook(sql, flowId, look);
  logger.warn({ flow_id: flowId, reason, look_again_at }, 'a new flow cannot list its folder');
}

export function causeOf({ flow_id }: Flow, runId: string | null = null): Cause {
  return { actor: ACTOR, correlationId: runId ?? flow_id, causationId: null };
}
