import { accessFold } from '../../domain/access.ts';
import { batchDecider } from '../../domain/batches/batch.ts';
import { endpointDecider } from '../../domain/endpoints/decider.ts';
import { endpointNameDecider } from '../../domain/endpoints/name.ts';
import type { Fold } from '../../domain/events/decider.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { eventHash } from '../../domain/events/event-hash.ts';
import {
  CHECKPOINTS,
  objectionTo,
  parseStream,
  RETENTION,
  SIGNING_KEYS,
  type StreamKind,
} from '../../domain/events/streams.ts';
import { upcast } from '../../domain/events/upcast.ts';
import { flowDecider } from '../../domain/flows/decider.ts';
import { keyDecider } from '../../domain/key.ts';
import { checkpointDecider } from '../../domain/proof/signed-checkpoint.ts';
import { signingKeyDecider } from '../../domain/proof/signing-key.ts';
import { retentionFold } from '../../domain/retention.ts';
import { transferDecider } from '../../domain/transfers/decider.ts';
import { endsTransfer, isClosed, type TransferState } from '../../domain/transfers/transfer.ts';
import { webhookDecider } from '../../domain/webhook.ts';
import { createOpenStreams } from './open-streams.ts';

/** A stream as its last checked event left it. */
export interface CheckedStream {
  revision: number;
  id: string;
  occurredAt: string;
  /** Null if the event has none: it cannot be read, or has no RFC 8785 form. */
  hash: string | null;
  /** Folded from all events. Null if an event is missing, or for a stream of no aggregate. */
  state: { status: string } | null;
}

export interface CheckedEvent {
  /** As text; empty if there is none. */
  problems: string[];
  stream: CheckedStream;
  /** True if the stream was not open: this is its first event, or it follows the end. */
  opened: boolean;
  /** True if this is the last event of the stream. */
  ended: boolean;
}

export interface ChainVerifier {
  /** Checks the next event of the log. If its stream may be forgotten, call `recall` before. */
  check(event: StoredEvent): CheckedEvent;
  /** Returns whether a stream of accesses may have had events that are not held any more. */
  mayBeForgotten(stream: string): boolean;
  /** Takes the last event that the log has of a stream of accesses, up to the next event. */
  recall(last: StoredEvent): void;
  /**
   * Returns the streams that may continue, by name: no ended transfers and batches, and no
   * accesses.
   */
  open(): ReadonlyMap<string, CheckedStream>;
  state(): ChainState;
}

/** What a later run needs to continue. */
export interface ChainState {
  /** The streams that may continue. Of those of accesses, only the last ones. */
  open: [string, CheckedStream][];
  /** True if further streams of accesses may continue. */
  hasForgotten: boolean;
}

const DECIDERS: Record<Exclude<StreamKind, 'log'>, Fold<{ status: string }>> = {
  transfer: transferDecider as Fold<{ status: string }>,
  batch: batchDecider as Fold<{ status: string }>,
  flow: flowDecider as Fold<{ status: string }>,
  endpoint: endpointDecider as Fold<{ status: string }>,
  endpoint_name: endpointNameDecider as Fold<{ status: string }>,
  key: keyDecider as Fold<{ status: string }>,
  webhook: webhookDecider as Fold<{ status: string }>,
  access: accessFold as Fold<{ status: string }>,
};
/** The deciders of the log's own streams. */
const LOG_DECIDERS: Record<string, Fold<{ status: string }>> = {
  [SIGNING_KEYS]: signingKeyDecider as Fold<{ status: string }>,
  [CHECKPOINTS]: checkpointDecider as Fold<{ status: string }>,
  [RETENTION]: retentionFold as Fold<{ status: string }>,
};

/**
 * Checks that each stream is complete, in order, unchanged and what its name says. Pass the events
 * in the order of the log, without upcasting them. Continues an earlier check with its state.
 */
export function createChainVerifier(
  { open: known, hasForgotten }: ChainState = { open: [], hasForgotten: false },
): ChainVerifier {
  const open = createOpenStreams(known, hasForgotten);

  return {
    check(event) {
      const before = open.get(event.stream);
      const { hash, unreadable } = hashOf(event);
      const { state, problem } =
        unreadable === null ? fold(event, before) : { state: null, problem: unreadable };
      const stream = {
        revision: event.revision,
        id: event.id,
        occurredAt: event.metadata.occurred_at ?? before?.occurredAt ?? '',
        hash,
        state,
      };
      const ended = isLast(event, state);
      if (ended) open.delete(event.stream);
      else open.set(event.stream, stream);
      const problems =
        event.unreadable === undefined
          ? [...faults(event, before), problem, objectionTo(event)]
          : [revisionFault(event, before), problem];
      return {
        problems: problems.filter((fault) => fault !== null),
        ...{ stream, opened: before === null, ended },
      };
    },
    mayBeForgotten: open.mayBeForgotten,
    recall(last) {
      const { hash, unreadable } = hashOf(last);
      open.set(last.stream, {
        revision: last.revision,
        id: last.id,
        occurredAt: last.metadata.occurred_at ?? '',
        hash,
        state: unreadable === null ? accessFold.evolve(accessFold.initialState(), last) : null,
      });
    },
    open: open.others,
    state: () => ({ open: open.held(), hasForgotten: open.hasForgotten() }),
  };
}

/** Returns the hash that the next event names, or why there is none. */
function hashOf(
  event: StoredEvent,
): { hash: string; unreadable: null } | { hash: null; unreadable: string } {
  try {
    if (event.unreadable === undefined) return { hash: eventHash(event), unreadable: null };
    return { hash: null, unreadable: `it was changed: ${event.unreadable}` };
  } catch (error) {
    const problem = `it has no RFC 8785 form (${(error as Error).message})`;
    return { hash: null, unreadable: `it was changed: ${problem}` };
  }
}

/** Returns true for the end of a batch or transfer, or the last step after the transfer. */
function isLast({ stream, type }: StoredEvent, state: CheckedStream['state']): boolean {
  const { kind } = parseStream(stream);
  if (kind === 'batch') return type === 'batch.completed';
  if (kind !== 'transfer') return false;
  return state === null ? endsTransfer(type) : isClosed(state as TransferState);
}

function fold(
  event: StoredEvent,
  before: CheckedStream | null,
): Pick<CheckedStream, 'state'> & { problem: string | null } {
  const decider = deciderOf(event.stream);
  const isNext = event.revision === (before?.revision ?? -1) + 1;
  if (decider === undefined || !isNext || before?.state === null)
    return { state: null, problem: null };
  const earlier = before?.state ?? decider.initialState();
  const state = evolved(decider, earlier, event);
  if (state === null)
    return { state, problem: `it was changed: its data is not that of ${event.type}` };
  if (state !== earlier) return { state, problem: null };
  return {
    state: null,
    problem: `${event.type} cannot follow in the status ${earlier.status}`,
  };
}

/** Returns null for data that Waybill does not write: a decider expects that of its events. */
function evolved(
  decider: Fold<{ status: string }>,
  state: { status: string },
  event: StoredEvent,
): { status: string } | null {
  try {
    return decider.evolve(state, upcast(event));
  } catch {
    return null;
  }
}

function deciderOf(stream: string): Fold<{ status: string }> | undefined {
  const { kind } = parseStream(stream);
  return kind === 'log' ? LOG_DECIDERS[stream] : kind && DECIDERS[kind];
}

/** Times as Waybill writes them, in UTC. As texts they have the order of the times. */
function isTime(value: unknown): boolean {
  return typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value);
}

function revisionFault({ revision }: StoredEvent, before: CheckedStream | null): string | null {
  const expected = (before?.revision ?? -1) + 1;
  if (revision === expected) return null;
  const why =
    before === null
      ? 'the events before it are missing, or it follows the end of its stream'
      : 'an event is missing, or one was added';
  return `revision ${expected} was expected: ${why}`;
}

function faults(event: StoredEvent, before: CheckedStream | null): (string | null)[] {
  const { id, metadata } = event;
  const wrongRevision = revisionFault(event, before);
  if (wrongRevision !== null) return [wrongRevision];
  // Without a hash, the event before it is a fault already.
  const hasNoHash = before !== null && before.hash === null;
  return [
    hasNoHash || metadata.prev_hash === (before?.hash ?? null)
      ? null
      : 'prev_hash is not the hash of the event before it: one of the two was changed',
    before !== null && id <= before.id
      ? 'its id is not greater than that of the event before it'
      : null,
    event.isRewritten
      ? 'another program rewrote its JSON. It says the same, but not in the form that was hashed: ' +
        'the tables of the tree cannot be rebuilt from it'
      : null,
    isTime(metadata.occurred_at) ? null : 'its time is missing, or is no time: it was changed',
    before !== null && metadata.occurred_at < before.occurredAt
      ? 'it is dated earlier than the event before it'
      : null,
  ];
}
