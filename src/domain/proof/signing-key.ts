import type { Decider } from '../events/decider.ts';
import { type Event, eventGuard } from '../events/event.ts';

/** The key that signs the checkpoints of the log. Its private part is in the vault. */
export interface SigningKey {
  /** Eight hex digits. */
  key_id: string;
  /** PEM. */
  public_key: string;
  /** The record of the vault that holds the private key. */
  key_record: string;
  /** From when on it signs. */
  since: string;
  /**
   * A signed note that names the key: signed by the key itself and, after a rotation, by the key
   * before it.
   */
  statement: string;
}

export interface SigningKeyRotated extends SigningKey {
  previous_key_id: string;
  /** False if the key before it was lost, so that it could not sign the statement. */
  signed_by_previous: boolean;
}

export type SigningKeyEvent =
  | Event<'log.key_created', SigningKey>
  | Event<'log.key_rotated', SigningKeyRotated>;

export type SigningKeyState = { status: 'none' } | ({ status: 'active' } & SigningKey);

export type SigningKeyCommand =
  | { type: 'create'; data: SigningKey }
  /** Replaces the key `data.previous_key_id`. No effect once another key has replaced it. */
  | { type: 'rotate'; data: SigningKeyRotated };

/** Decides which key signs the checkpoints. It is one stream in each log. */
export const signingKeyDecider: Decider<SigningKeyState, SigningKeyCommand, SigningKeyEvent> = {
  initialState: () => ({ status: 'none' }),

  decide(command, state) {
    if (command.type === 'create')
      return state.status === 'none' ? [{ type: 'log.key_created', data: command.data }] : [];
    return state.status === 'active' && state.key_id === command.data.previous_key_id
      ? [{ type: 'log.key_rotated', data: command.data }]
      : [];
  },

  evolve(state, event) {
    if (!isSigningKeyEvent(event)) return state;
    const { key_id, public_key, key_record, since, statement } = event.data;
    return { status: 'active', key_id, public_key, key_record, since, statement };
  },

  accountOf: () => null,
};

export const isSigningKeyEvent = eventGuard<SigningKeyEvent>({
  'log.key_created': true,
  'log.key_rotated': true,
});
