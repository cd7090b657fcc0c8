import { pagesOf } from '../adapters/event-store/pages.ts';
import type { FlowChanges, FlowRequest } from '../contract/flows/requests.ts';
import {
  type Batch,
  type BatchCommand,
  type BatchCompleted,
  batchDecider,
} from '../domain/batches/batch.ts';
import { DomainError, notFound } from '../domain/errors.ts';
import { fold } from '../domain/events/decider.ts';
import type { StoredEvent } from '../domain/events/event.ts';
import { streamName } from '../domain/events/streams.ts';
import { flowDecider } from '../domain/flows/decider.ts';
import {
  batchOfRun,
  type Flow,
  type FlowCommand,
  type FlowSettings,
  type FlowState,
  type OpenRun,
  type RunOutcome,
  type ShownFlow,
} from '../domain/flows/flow.ts';
import { isId, newId } from '../domain/ids.ts';
import { changeBatch } from './batches.ts';
import type { CommandDeps } from './deps.ts';
import { checkPlaces, refuseOtherSpelling } from './flow-places.ts';
import {
  type Cause,
  type Handled,
  type HandleOptions,
  handle,
  load,
  ofRequest,
  type Timed,
  untouched,
} from './handle.ts';

const MAX_FLOWS = 100;
/** Events of a flow. Those of skipped files have up to 53 KB each. */
const READ_AT_ONCE = 500;

/** Id and time that a creation fixes before it appends. */
export interface ReservedFlow {
  flowId: string;
  now: string;
}

export function reserveFlow(): ReservedFlow {
  const now = Date.now();
  return {
    flowId: newId('flo', now),
    now: new Date(now).toISOString(),
  };
}

export type KnownFlow = NonNullable<HandleOptions<FlowState>['known']> & { state: Flow };

/**
 * Creates a flow. `repeated` means that an earlier process may have created it already: then the
 * log decides. Throws `limit_reached`, and what `checkPlaces` throws.
 */
export async function createFlow(
  deps: CommandDeps,
  accountId: string,
  request: FlowRequest,
  cause: Cause,
  reserved: ReservedFlow,
  repeated = false,
): Promise<Handled<Flow>> {
  const { flowId, now } = reserved;
  if (repeated) {
    const known = await load(deps.store, flowDecider, streamName('flow', flowId));
    if (known.state.status !== 'none') return { ...known, state: known.state, events: [] };
  }
  const { enabled, start, ...settings } = request;
  await checkPlaces(deps, accountId, settings);
  if ((await deps.countFlows(accountId)) >= MAX_FLOWS)
    throw new DomainError(
      'limit_reached',
      `The account has ${MAX_FLOWS} flows: remove one that it no longer needs`,
    );
  const data = {
    flow_id: flowId,
    account_id: accountId,
    ...settings,
    enabled,
    start,
    created_at: now,
  };
  return changeFlow(deps, flowId, { type: 'create', data }, cause, { reserved });
}

/** Changes the settings of a flow. Throws `not_found` and what `createFlow` throws. */
export async function updateFlow(
  deps: CommandDeps,
  accountId: string,
  flowId: string,
  changes: FlowChanges,
  cause: Cause,
): Promise<Handled<Flow>> {
  const known = await loadFlow(deps, accountId, flowId);
  const settings = changes as Partial<FlowSettings>;
  const command = (now: string) => ({ type: 'update', changes: settings, now }) as const;
  const check = async (state: FlowState) => {
    if (state.status === 'none') return;
    const { source } = settings;
    if (source) await refuseOtherSpelling(deps, accountId, state.source, source);
    await checkPlaces(deps, accountId, { ...state, ...settings });
  };
  return changeFlow(deps, flowId, command, cause, { known, check });
}

/**
 * Returns a revision that the stream of a flow has reached. A request reserves it: the events of
 * all of its attempts come later. -1 if the read model does not show the flow.
 */
export async function reachedRevision({ shownFlow }: CommandDeps, flowId: string): Promise<number> {
  // Postgres rejects text with a NUL, which no id has.
  const shown = isId('flo', flowId) ? await shownFlow(flowId) : null;
  return shown?.revision ?? -1;
}

/**
 * Pauses, resumes or removes a flow. A run that is open continues. `reached` comes from
 * `reachedRevision` if the request may be repeated. Throws `not_found`.
 */
export async function switchFlow(
  deps: CommandDeps,
  accountId: string,
  flowId: string,
  type: 'pause' | 'resume' | 'remove',
  cause: Cause,
  reached?: number,
): Promise<Handled<Flow>> {
  const known = await loadFlow(deps, accountId, flowId, reached);
  const command = (now: string) => ({ type, now });
  return changeFlow(deps, flowId, command, cause, { known, unless: ofRequest(cause) });
}

/**
 * Asks for a run. Returns the run that was asked for: an earlier one if that has not begun yet.
 * `reached` comes from `reachedRevision` if the request may be repeated. Throws `not_found`.
 */
export async function requestRun(
  deps: CommandDeps,
  accountId: string,
  flowId: string,
  runId: string,
  cause: Cause,
  reached?: number,
): Promise<Handled<Flow> & { runId: string }> {
  const known = await loadFlow(deps, accountId, flowId, reached);
  const command = (now: string) => ({ type: 'request_run', run_id: runId, now }) as const;
  // The state forgets a request when its run begins. The stream does not.
  let isInLog = false;
  const unless = ({ type, data }: StoredEvent) => {
    isInLog ||= type === 'flow.run_requested' && (data as { run_id: string }).run_id === runId;
    return isInLog;
  };
  const handled = await changeFlow(deps, flowId, command, cause, { known, unless });
  const earlier = isInLog ? undefined : handled.state.requested?.run_id;
  return { ...handled, runId: earlier ?? runId };
}

/**
 * Loads a flow of an account. `stored` has its events from the revision `reached` on. Throws
 * `not_found`, also for a removed one.
 */
export async function loadFlow(
  { store, shownFlow }: Pick<CommandDeps, 'store' | 'shownFlow'>,
  accountId: string,
  flowId: string,
  reached = Number.POSITIVE_INFINITY,
): Promise<KnownFlow> {
  if (!isId('flo', flowId)) throw notFound('flow');
  // The stream of a flow that runs often is long, so it is read from what the read model shows.
  const shown = await shownFlow(flowId);
  const { revision, position } = shown ?? { revision: -1, position: null };
  const stored = await store.read(
    streamName('flow', flowId),
    Math.max(0, Math.min(revision, reached)),
  );
  // Without the events that the read model does not show yet, a command that changes nothing in the
  // state that is shown would be lost: it appends no event, so nothing rejects it.
  const news = stored.filter((event) => event.revision > revision);
  const state = fold(flowDecider, news, shown?.state);
  if (state.status === 'none' || state.status === 'removed' || state.account_id !== accountId)
    throw notFound('flow');
  const last = stored.at(-1) ?? null;
  return {
    state,
    revision: last?.revision ?? revision,
    position: last?.position ?? position,
    last,
    stored,
  };
}

/**
 * Returns a flow as it was when a run started: the run keeps these settings. It folds the stream up
 * to there, so read models need no copy of the settings of each run. Throws `not_found`.
 */
export async function flowAtStart(
  { store }: Pick<CommandDeps, 'store'>,
  flowId: string,
  runId: string,
): Promise<Flow> {
  let state: FlowState = flowDecider.initialState();
  for await (const events of pagesOf(store, streamName('flow', flowId), 0, READ_AT_ONCE)) {
    const start = events.findIndex(
      ({ type, data }) =>
        type === 'flow.run_started' && (data as { run_id: string }).run_id === runId,
    );
    state = fold(flowDecider, start < 0 ? events : events.slice(0, start + 1), state);
    if (start >= 0 && state.status !== 'none') return state;
  }
  throw notFound('flow');
}

/** Adds the last event, which an append needs, to a flow as its read model shows it. */
export async function withLast(
  { store }: Pick<CommandDeps, 'store'>,
  { state, revision, position }: ShownFlow,
): Promise<KnownFlow> {
  const stream = streamName('flow', state.flow_id);
  const [last = null] = await store.read(stream, revision, 1);
  return { state, revision, position, last };
}

/**
 * Creates the batch of a run, unless it exists. Its ids derive from the run, so a process that
 * continues the run finds it. `isNew` means that it probably does not exist. Without events,
 * another process has created it.
 */
export async function createBatchOfRun(
  deps: Pick<CommandDeps, 'store'>,
  { flow_id, account_id, priority, metadata, after }: Flow,
  { run_id, batch_id, started_at }: Pick<OpenRun, 'run_id' | 'batch_id' | 'started_at'>,
  cause: Cause,
  isNew: boolean,
): Promise<Handled<Batch>> {
  const data = {
    batch_id,
    account_id,
    source: { type: 'flow', flow_id, run_id },
    priority,
    metadata,
    notify_on_complete: false,
    ...(after && { after }),
    created_at: started_at,
  } as const;
  const command: BatchCommand = { type: 'create', data, pages: [] };
  const options = isNew ? { known: untouched(batchDecider.initialState) } : {};
  return changeBatch(deps, batch_id, command, cause, options);
}

/** Returns how a run ended, from the end of its batch. */
export function outcomeOf({ status, counts, bytes, ended_at }: BatchCompleted): RunOutcome {
  const { items: files, completed, failed, cancelled } = counts;
  return { status, counts: { files, completed, failed, cancelled }, bytes, ended_at };
}

/** Returns the names of a new run and its batch. */
export function newRun(runId: string = newId('run')): Pick<OpenRun, 'run_id' | 'batch_id'> {
  return { run_id: runId, batch_id: batchOfRun(runId) };
}

export async function changeFlow(
  { store }: Pick<CommandDeps, 'store'>,
  flowId: string,
  command: Timed<FlowCommand>,
  cause: Cause,
  options: HandleOptions<FlowState> = {},
): Promise<Handled<Flow>> {
  const stream = streamName('flow', flowId);
  const { state, ...handled } = await handle(store, flowDecider, stream, command, cause, options);
  if (state.status === 'none') throw notFound('flow');
  return { state, ...handled };
}
