import { describe, expect, it } from 'vitest';
import { flowDecider } from '../../../src/domain/flows/decider.ts';
import type { FlowCommand, FlowEvent } from '../../../src/domain/flows/flow.ts';
import { specify, stateAfter } from '../../support/domain/decider.ts';
import {
  flowCreated,
  LISTING_ERROR,
  RUN_COMPLETED,
  RUN_STARTED,
  T0,
  T1,
  T2,
} from '../../support/domain/samples.ts';

const given = specify(flowDecider);
const created: FlowEvent = { type: 'flow.created', data: flowCreated() };
const started: FlowEvent = { type: 'flow.run_started', data: RUN_STARTED };
const listed: FlowEvent = { type: 'flow.run_listed', data: { run_id: 'run_1', listed_at: T1 } };
const completed: FlowEvent = { type: 'flow.run_completed', data: RUN_COMPLETED };
const paused: FlowEvent = { type: 'flow.paused', data: { paused_at: T1 } };
const removed: FlowEvent = { type: 'flow.removed', data: { removed_at: T1 } };
const requested: FlowEvent = {
  type: 'flow.run_requested',
  data: { run_id: 'run_2', requested_at: T1 },
};
const { flow_id, name } = RUN_COMPLETED;
const failed: FlowEvent = {
  type: 'flow.run_failed',
  data: { flow_id, name, run_id: 'run_9', error: LISTING_ERROR, failed_at: T1 },
};
const start = (seen: number): FlowCommand => ({ type: 'start_run', seen, data: RUN_STARTED });
const endListing: FlowCommand = { type: 'end_listing', run_id: 'run_1', now: T1 };
const { status, counts, bytes, ended_at } = RUN_COMPLETED;
const complete: FlowCommand = {
  type: 'complete_run',
  run_id: 'run_1',
  outcome: { status, counts, bytes, ended_at },
};
const note = (error: typeof LISTING_ERROR | null, run_id = 'run_9'): FlowCommand => ({
  type: 'note_listing',
  error,
  run_id,
  now: T2,
});

describe('a flow', () => {
  it('is created once, active or paused', () => {
    given([]).when({ type: 'create', data: flowCreated() }).yields([created]);
    given([created]).when({ type: 'create', data: flowCreated() }).yields([]);
    const off: FlowEvent = { type: 'flow.created', data: flowCreated({ enabled: false }) };
    expect(stateAfter(flowDecider, [off]).status).toBe('paused');
  });

  it('keeps only the settings that change', () => {
    const changes = { name: 'orders', trigger: { every: '1m' } };
    given([created])
      .when({ type: 'update', changes, now: T1 })
      .yields([{ type: 'flow.updated', data: { trigger: { every: '1m' }, updated_at: T1 } }]);
    given([created])
      .when({ type: 'update', changes: { name: 'orders' }, now: T1 })
      .yields([]);
  });

  it('skips all files of a source that changes while it skips files', () => {
    const before: FlowEvent = { type: 'flow.created', data: flowCreated({ start: 'new_only' }) };
    const page = { files: [], through: 'm.csv', last: false, skipped_at: T1 };
    const skipped: FlowEvent = { type: 'flow.files_skipped', data: page };
    const { source } = flowCreated();
    const other = { source: { ...source, uri: 'sftp://from/other/' } };
    const updated: FlowEvent = { type: 'flow.updated', data: { ...other, updated_at: T2 } };
    const again: FlowEvent = {
      type: 'flow.files_skipped',
      data: { ...page, through: null, skipped_at: T2 },
    };
    const update: FlowCommand = { type: 'update', changes: other, now: T2 };
    given([before, skipped]).when(update).yields([updated, again]);
    expect(stateAfter(flowDecider, [before, skipped, updated, again])).toMatchObject({
      skipping: { through: null },
    });
    given([before]).when(update).yields([updated]);
    const ended: FlowEvent = { type: 'flow.files_skipped', data: { ...page, last: true } };
    given([before, ended]).when(update).yields([updated]);
    const changes = { ready: { marker: '.done' } };
    given([before, skipped])
      .when({ type: 'update', changes, now: T2 })
      .yields([{ type: 'flow.updated', data: { ...changes, updated_at: T2 } }, again]);
    given([before, skipped])
      .when({ type: 'update', changes: { name: 'other' }, now: T2 })
      .yields([{ type: 'flow.updated', data: { name: 'other', updated_at: T2 } }]);
  });

  it('is paused and resumed once', () => {
    given([created]).when({ type: 'pause', now: T1 }).yields([paused]);
    given([created, paused]).when({ type: 'pause', now: T1 }).yields([]);
    given([created]).when({ type: 'resume', now: T1 }).yields([]);
    given([created, paused])
      .when({ type: 'resume', now: T2 })
      .yields([{ type: 'flow.resumed', data: { resumed_at: T2 } }]);
  });

  it('takes no change after its removal, and ends its runs', () => {
    given([created]).when({ type: 'remove', now: T1 }).yields([removed]);
    for (const type of ['pause', 'resume'] as const)
      given([created, removed]).when({ type, now: T2 }).yields('not_found');
    given([created, removed]).when({ type: 'remove', now: T2 }).yields([]);
    given([created, removed]).when(start(1)).yields([]);
    given([created, started, removed]).when(endListing).yields([listed]);
    given([created, started, listed, removed]).when(complete).yields([completed]);
  });
});

describe('a run', () => {
  it('starts only at the revision on which its files were chosen', () => {
    given([created]).when(start(0)).yields([started]);
    given([created, paused]).when(start(0)).yields([]);
    given([created, paused]).when(start(1)).yields([started]);
  });

  it('starts only when the one before is listed', () => {
    given([created, started]).when(start(1)).yields([]);
    given([created, started, listed]).when(start(2)).yields([started]);
    const all: FlowEvent = { type: 'flow.created', data: flowCreated({ start: 'new_only' }) };
    given([all]).when(start(0)).yields([]);
  });

  it('is listed once, and then completed once', () => {
    given([created, started]).when(endListing).yields([listed]);
    given([created, started, listed]).when(endListing).yields([]);
    given([created, started]).when(complete).yields([]);
    given([created, started, listed]).when(complete).yields([completed]);
    given([created, started, listed, completed]).when(complete).yields([]);
  });

  it('is asked for once, and ends if it takes nothing', () => {
    const ask: FlowCommand = { type: 'request_run', run_id: 'run_2', now: T1 };
    given([created]).when(ask).yields([requested]);
    given([created, requested])
      .when({ ...ask, run_id: 'run_3' })
      .yields([]);
    const empty: FlowEvent = {
      type: 'flow.run_empty',
      data: { run_id: 'run_2', error: null, ended_at: T2 },
    };
    given([created, requested]).when(note(null, 'run_2')).yields([empty]);
    given([created, requested]).when(note(null, 'run_9')).yields([]);
    given([created, requested, empty]).when(note(null, 'run_2')).yields([]);
  });

  it('fails and recovers once', () => {
    given([created]).when(note(null)).yields([]);
    given([created])
      .when(note(LISTING_ERROR))
      .yields([{ ...failed, data: { ...failed.data, failed_at: T2 } } as FlowEvent]);
    given([created, failed]).when(note(LISTING_ERROR)).yields([]);
    given([created, failed])
      .when(note(null))
      .yields([
        { type: 'flow.recovered', data: { flow_id, name, failed_since: T1, recovered_at: T2 } },
      ]);
  });

  it('has the revision of the stream after each event', () => {
    const events = [created, requested, paused, started, listed, failed, completed, removed];
    for (let count = 1; count <= events.length; count++)
      expect(stateAfter(flowDecider, events.slice(0, count))).toMatchObject({
        revision: count - 1,
      });
    // An event that cannot follow changes nothing.
    const before = stateAfter(flowDecider, [created]);
    expect(flowDecider.evolve(before, listed)).toBe(before);
    expect(before).toMatchObject({ scheduled_from: T0 });
  });
});
