import { changedSettings } from '../changed-settings.ts';
import { notFound } from '../errors.ts';
import { canonicalJson } from '../events/canonical-json.ts';
import type { Decider } from '../events/decider.ts';
import { type Event, eventGuard, unknownEvent } from '../events/event.ts';
import { isSameFailure } from './failures.ts';
import type { Flow, FlowCommand, FlowEvent, FlowSettings, FlowState } from './flow.ts';

function initialState(): FlowState {
  return { status: 'none' };
}

/**
 * Returns no event if the work is already done, or if another process was first. Throws `not_found`
 * for a change of a flow that does not exist. A removed flow still ends its runs.
 */
function decide(command: FlowCommand, state: FlowState): FlowEvent[] {
  if (command.type === 'create')
    return state.status === 'none' ? [{ type: 'flow.created', data: command.data }] : [];
  if (state.status === 'none') throw notFound('flow');
  switch (command.type) {
    case 'end_listing':
      return isOpen(state, command.run_id, false)
        ? [{ type: 'flow.run_listed', data: { run_id: command.run_id, listed_at: command.now } }]
        : [];
    case 'complete_run':
      return completed(command, state);
    default:
      return state.status === 'removed' ? ofRemoved(command) : ofLive(command, state);
  }
}

type LiveCommand = Exclude<
  FlowCommand,
  { type: 'create' } | { type: 'end_listing' } | { type: 'complete_run' }
>;

/** A process that works on a flow may learn of its removal from its next append. */
function ofRemoved({ type }: LiveCommand): [] {
  switch (type) {
    case 'update':
    case 'pause':
    case 'resume':
    case 'request_run':
      throw notFound('flow');
    case 'remove':
    case 'skip_files':
    case 'start_run':
    case 'note_listing':
      return [];
  }
}

function ofLive(command: LiveCommand, state: Flow): FlowEvent[] {
  switch (command.type) {
    case 'update':
      return updated(command, state);
    case 'pause':
      return state.status === 'active'
        ? [{ type: 'flow.paused', data: { paused_at: command.now } }]
        : [];
    case 'resume':
      return state.status === 'paused'
        ? [{ type: 'flow.resumed', data: { resumed_at: command.now } }]
        : [];
    case 'remove':
      return [{ type: 'flow.removed', data: { removed_at: command.now } }];
    case 'request_run': {
      const data = { run_id: command.run_id, requested_at: command.now };
      return state.requested === null ? [{ type: 'flow.run_requested', data }] : [];
    }
    case 'skip_files':
      return state.revision === command.seen && state.skipping !== null
        ? [{ type: 'flow.files_skipped', data: command.page }]
        : [];
    case 'start_run':
      return state.revision === command.seen && isFree(state)
        ? [{ type: 'flow.run_started', data: command.data }]
        : [];
    case 'note_listing':
      return noted(command, state);
  }
}

/** Returns true if no run is still being listed. */
function isFree({ open_runs, skipping }: Flow): boolean {
  return skipping === null && open_runs.every(({ listed }) => listed);
}

function isOpen({ open_runs }: Flow, runId: string, listed: boolean): boolean {
  return open_runs.some((run) => run.run_id === runId && run.listed === listed);
}

function updated(
  { changes, now }: Extract<FlowCommand, { type: 'update' }>,
  state: Flow,
): FlowEvent[] {
  const changed = changedSettings<FlowSettings>(changes, state, isEqual);
  if (Object.keys(changed).length === 0) return [];
  const event: FlowEvent = { type: 'flow.updated', data: { ...changed, updated_at: now } };
  return isSkippedAgain(changed, state) ? [event, skippedNone(now)] : [event];
}

/** What was skipped so far says nothing about the files that other settings list. */
function isSkippedAgain({ source, ready }: Partial<FlowSettings>, { skipping }: Flow): boolean {
  return (source !== undefined || ready !== undefined) && (skipping?.through ?? null) !== null;
}

/** Lets a `new_only` flow list its folder from the start. */
function skippedNone(now: string): FlowEvent {
  const data = { files: [], through: null, last: false, skipped_at: now };
  return { type: 'flow.files_skipped', data };
}

function isEqual(a: unknown, b: unknown): boolean {
  return canonicalJson([a]) === canonicalJson([b]);
}

function completed(
  { run_id, outcome }: Extract<FlowCommand, { type: 'complete_run' }>,
  state: Flow,
): FlowEvent[] {
  const run = state.open_runs.find((one) => one.run_id === run_id);
  if (!run?.listed) return [];
  const { flow_id, name } = state;
  const { batch_id, started_at } = run;
  const { status, counts, bytes, ended_at } = outcome;
  const data = { flow_id, name, run_id, batch_id, status, counts, bytes, started_at, ended_at };
  return [{ type: 'flow.run_completed', data }];
}

function noted(
  { error, run_id, now }: Extract<FlowCommand, { type: 'note_listing' }>,
  state: Flow,
): FlowEvent[] {
  const { flow_id, name, failing, requested } = state;
  const events: FlowEvent[] = [];
  if (error !== null && !isSameFailure(failing?.error ?? null, error))
    events.push({
      type: 'flow.run_failed',
      data: { flow_id, name, run_id, error, failed_at: now },
    });
  if (error === null && failing !== null)
    events.push({
      type: 'flow.recovered',
      data: { flow_id, name, failed_since: failing.since, recovered_at: now },
    });
  if (requested !== null && requested.run_id === run_id)
    events.push({ type: 'flow.run_empty', data: { run_id, error, ended_at: now } });
  return events;
}

const isFlowEvent = eventGuard<FlowEvent>({
  'flow.created': true,
  'flow.updated': true,
  'flow.paused': true,
  'flow.resumed': true,
  'flow.removed': true,
  'flow.files_skipped': true,
  'flow.run_requested': true,
  'flow.run_empty': true,
  'flow.run_started': true,
  'flow.run_listed': true,
  'flow.run_completed': true,
  'flow.run_failed': true,
  'flow.recovered': true,
});

function evolve(state: FlowState, event: Event): FlowState {
  if (!isFlowEvent(event)) return state;
  if (state.status === 'none') {
    if (event.type !== 'flow.created') return state;
    const { enabled, ...data } = event.data;
    return {
      ...data,
      status: enabled ? 'active' : 'paused',
      revision: 0,
      updated_at: data.created_at,
      scheduled_from: data.created_at,
      skipping: data.start === 'new_only' ? { through: null } : null,
      requested: null,
      open_runs: [],
      failing: null,
    };
  }
  const changes = changesOf(state, event);
  return changes === null ? state : { ...state, ...changes, revision: state.revision + 1 };
}

/** Returns what an event changes. Null if it cannot follow. */
function changesOf(state: Flow, event: FlowEvent): Partial<Flow> | null {
  switch (event.type) {
    case 'flow.run_listed': {
      const { run_id } = event.data;
      if (!isOpen(state, run_id, false)) return null;
      return {
        open_runs: state.open_runs.map((run) =>
          run.run_id === run_id ? { ...run, listed: true } : run,
        ),
      };
    }
    case 'flow.run_completed': {
      const { run_id } = event.data;
      if (!isOpen(state, run_id, true)) return null;
      return { open_runs: state.open_runs.filter((run) => run.run_id !== run_id) };
    }
    default:
      return state.status === 'removed' ? null : changesOfLive(state, event);
  }
}

type LiveEvent = Exclude<FlowEvent, { type: 'flow.run_listed' | 'flow.run_completed' }>;

function changesOfLive(state: Flow, event: LiveEvent): Partial<Flow> | null {
  switch (event.type) {
    case 'flow.created':
      return null;
    case 'flow.updated': {
      const { updated_at, ...settings } = event.data;
      const again = settings.trigger === undefined ? {} : { scheduled_from: updated_at };
      return { ...settings, ...again, updated_at };
    }
    case 'flow.paused':
      return { status: 'paused', updated_at: event.data.paused_at };
    case 'flow.resumed': {
      const { resumed_at } = event.data;
      return { status: 'active', updated_at: resumed_at, scheduled_from: resumed_at };
    }
    case 'flow.removed':
      return { status: 'removed', updated_at: event.data.removed_at, requested: null };
    case 'flow.files_skipped': {
      const { through, last } = event.data;
      return state.skipping === null ? null : { skipping: last ? null : { through } };
    }
    case 'flow.run_requested':
      return { requested: event.data };
    case 'flow.run_empty':
      return { requested: null };
    case 'flow.run_started': {
      const { requested } = state;
      return {
        open_runs: [...state.open_runs, { ...event.data, listed: false }],
        requested: requested?.run_id === event.data.run_id ? null : requested,
      };
    }
    case 'flow.run_failed':
      return {
        failing: {
          error: event.data.error,
          since: state.failing?.since ?? event.data.failed_at,
        },
      };
    case 'flow.recovered':
      return { failing: null };
    default:
      return unknownEvent(event);
  }
}

function accountOf(state: FlowState): string | null {
  return state.status === 'none' ? null : state.account_id;
}

export const flowDecider: Decider<FlowState, FlowCommand, FlowEvent> = {
  initialState,
  decide,
  evolve,
  accountOf,
};
