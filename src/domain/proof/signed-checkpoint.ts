import type { Decider } from '../events/decider.ts';
import { type Event, eventGuard } from '../events/event.ts';

/** A signed head of the tree over the log. */
export interface CheckpointSigned {
  /** Number of leaves. The checkpoint's own event is a later leaf. */
  size: number;
  /** The root, in lowercase hex. */
  root_hash: string;
  /** The id of the key that signed it. */
  key_id: string;
  /** The signed note (C2SP tlog-checkpoint). */
  note: string;
  signed_at: string;
}

export type CheckpointEvent = Event<'log.checkpoint_signed', CheckpointSigned>;

export type CheckpointState = { status: 'none' } | ({ status: 'signed' } & CheckpointSigned);

export interface CheckpointCommand {
  type: 'sign';
  data: CheckpointSigned;
  /** Size of the checkpoint that the new one was shown to extend; null for the first. */
  extends: number | null;
}

/**
 * Decides which checkpoint follows. A checkpoint has no effect unless it is larger than the last
 * one, and its signer has shown that it extends that one.
 */
export const checkpointDecider: Decider<CheckpointState, CheckpointCommand, CheckpointEvent> = {
  initialState: () => ({ status: 'none' }),

  decide({ data, extends: extended }, state) {
    const last = state.status === 'none' ? null : state.size;
    return last === extended && data.size > (last ?? 0)
      ? [{ type: 'log.checkpoint_signed', data }]
      : [];
  },

  evolve: (state, event) =>
    isCheckpointEvent(event) ? { status: 'signed', ...event.data } : state,

  accountOf: () => null,
};

export const isCheckpointEvent = eventGuard<CheckpointEvent>({ 'log.checkpoint_signed': true });
