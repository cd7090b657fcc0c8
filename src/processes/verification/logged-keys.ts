/*
 * Follows the keys that the log names, and finds
 * - keys that no signature proves. A forged event could say that the key before it signed the new
 *   one.
 * - keys that do not follow from those that the reader gave. An attacker who can write to the log
 *   can say that the old key was lost, and sign with a new one. A key follows if the reader gave
 *   it, or if the key before it follows and has signed its statement. Keys before the first that
 *   follows are not proved, and prove nothing.
 * - checkpoints that none of the keys of their time signed. A stolen key could sign for ever.
 *
 * The id of a key has four bytes. An attacker can find another key with the same id, so public keys
 * are compared.
 */
import type { KeyObject } from 'node:crypto';
import type { StoredEvent } from '../../domain/events/event.ts';
import { originOf, parseCheckpoint } from '../../domain/proof/checkpoint.ts';
import { isSignedByPrevious, readKey, statementProblem } from '../../domain/proof/key-statement.ts';
import { isSignedBy, keyIdOf, parseNote } from '../../domain/proof/note.ts';
import { isCheckpointEvent } from '../../domain/proof/signed-checkpoint.ts';
import { isSigningKeyEvent } from '../../domain/proof/signing-key.ts';
import { type Fault, faultIn, nowhere } from './fault.ts';
import type { KeptCheckpoint } from './kept-checkpoints.ts';

/** A key that an event of the log names. */
export interface LoggedKey {
  /** Eight hex digits. */
  keyId: string;
  /** PEM. */
  publicKey: string;
  /** The leaf of the event that replaced it; null if none did. */
  replacedAt: number | null;
  /** False if the key before it has not signed its statement. Null for the first key. */
  isSigned: boolean | null;
  /** True if it follows from a key that the reader gave. */
  follows: boolean;
}

export interface LoggedKeys {
  /** Takes the next event of the stream of keys. `leaf` is its place in the tree. */
  add(event: StoredEvent, leaf: number): Fault[];
  /** Checks who signed a checkpoint in the log. Of each key, names the first one that is wrong. */
  checkCheckpoint(event: StoredEvent): { isSigned: boolean; faults: Fault[] };
  /** Yields what is wrong with kept checkpoints, and with the keys that the reader gave. */
  faultsAtEnd(checkpoints: KeptCheckpoint[]): Generator<Fault>;
  /** Returns the public keys that follow from those that the reader gave. */
  following(): KeyObject[];
  state(): LoggedKey[];
}

/** Follows the keys of a log. `given` is empty if the reader gave none. Continues with `known`. */
export function createLoggedKeys(
  logId: string,
  given: readonly KeyObject[],
  known: readonly LoggedKey[] = [],
): LoggedKeys {
  const origin = originOf(logId);
  const keys = structuredClone(known) as LoggedKey[];
  const objects = new Map<string, KeyObject | null>();
  /** Ids of keys of which a wrong checkpoint was named. */
  const named = new Set<unknown>();

  function objectOf({ publicKey }: LoggedKey): KeyObject | null {
    if (!objects.has(publicKey)) objects.set(publicKey, readKey(publicKey));
    return objects.get(publicKey) ?? null;
  }

  const isGiven = (key: KeyObject | null) => key !== null && given.some((one) => one.equals(key));

  return {
    add(event, leaf) {
      // An event that cannot be read is a fault already.
      if (event.unreadable !== undefined || !isSigningKeyEvent(event)) return [];
      const { data } = event;
      const previous = keys.at(-1) ?? null;
      const wrong = statementProblem(data, logId);
      const isSigned =
        previous && isSignedByPrevious(data, { public_key: previous.publicKey }, logId);
      const key: LoggedKey = {
        keyId: data.key_id,
        publicKey: String(data.public_key),
        ...{ replacedAt: null, isSigned, follows: false },
      };
      key.follows = isGiven(objectOf(key)) || (isSigned === true && previous?.follows === true);
      if (event.type === 'log.key_rotated')
        for (const one of keys)
          if (one.keyId === event.data.previous_key_id) one.replacedAt ??= leaf;
      const isUnproved = given.length > 0 && !key.follows && keys.some(({ follows }) => follows);
      keys.push(key);
      if (wrong !== null) return [faultIn(event, `it names a key, and ${wrong}`)];
      const unproved = isUnproved ? [unprovedFault(event, isSigned === true)] : [];
      if (event.type === 'log.key_created')
        return event.revision === 0
          ? unproved
          : [faultIn(event, 'it is not the first key of the log'), ...unproved];
      if (previous?.keyId !== event.data.previous_key_id)
        return [faultIn(event, 'it does not replace the key before it'), ...unproved];
      // After a loss, the event says that the key before it did not sign.
      if (!event.data.signed_by_previous || isSigned) return unproved;
      const problem = 'it says that the key before it signed its statement, which is false';
      return [faultIn(event, problem), ...unproved];
    },

    checkCheckpoint(event) {
      if (event.unreadable !== undefined || !isCheckpointEvent(event))
        return { isSigned: false, faults: [] };
      const { size, root_hash, key_id, note } = event.data;
      const parsed = typeof note === 'string' ? parseNote(note) : null;
      const head = parsed && parseCheckpoint(parsed.text);
      const isSame =
        head?.origin === origin &&
        head.size === size &&
        Buffer.from(head.root).toString('hex') === root_hash;
      const signers = keys.filter((key) => {
        const publicKey = key.keyId === key_id && parsed ? objectOf(key) : null;
        return publicKey !== null && parsed !== null && isSignedBy(parsed, publicKey, origin);
      });
      const problem = isSame
        ? signersProblem(signers, size, key_id)
        : 'the note of this checkpoint says something else than its event';
      if (problem === null || named.has(key_id)) return { isSigned: problem === null, faults: [] };
      named.add(key_id);
      const fault = faultIn(event, `${problem}. Further checkpoints of this key are not named`);
      return { isSigned: false, faults: [fault] };
    },

    *faultsAtEnd(checkpoints) {
      yield* signedTooLate(checkpoints, keys);
      for (const key of given) {
        if (keys.some((logged) => objectOf(logged)?.equals(key))) continue;
        const problem =
          `it does not have the key ${keyIdOf(origin, key)} that you gave. This is a key of ` +
          'another log, or the event that named it was removed';
        yield nowhere('key', problem);
      }
    },

    following: () => keys.flatMap((key) => (key.follows && objectOf(key)) || []),
    state: () => structuredClone(keys),
  };
}

function unprovedFault(event: StoredEvent, isSigned: boolean): Fault {
  const problem =
    (isSigned
      ? 'it names a key that follows from none that you gave'
      : 'it names a key that the key before it did not sign, and that you did not give') +
    '. An attacker can add such a key. If the operators say that a key was lost, ask them for the ' +
    'public key that replaced it, and pass it with a further --key. Do not take it from this ' +
    'installation';
  return { ...faultIn(event, problem), check: 'key' };
}

/** Returns what is wrong with the keys that signed a checkpoint in the log; null for nothing. */
function signersProblem(signers: LoggedKey[], size: number, keyId: string): string | null {
  const ends = signers.map(({ replacedAt }) => replacedAt ?? size);
  const [first] = ends;
  if (first === undefined)
    return `no key that the log names before this checkpoint signed it as ${keyId}`;
  const isLate = ends.every((end) => end < size);
  return isLate ? `this checkpoint covers ${tooLate(size, keyId, first)}` : null;
}

/**
 * Yields a fault for each checkpoint that covers the event which replaced its key. The signer reads
 * its key after the tree, so a genuine checkpoint never does.
 */
function* signedTooLate(checkpoints: KeptCheckpoint[], keys: LoggedKey[]): Generator<Fault> {
  for (const { source, size, keyIds = [] } of checkpoints) {
    const ends = keyIds.map((keyId) => {
      const key = keys.find((one) => one.keyId === keyId && one.replacedAt !== null);
      return [keyId, key?.replacedAt ?? size] as const;
    });
    const [first] = ends;
    if (first === undefined || ends.some(([, end]) => end >= size)) continue;
    yield nowhere('checkpoint', `${source} covers ${tooLate(size, ...first)}`);
  }
}

/** Returns the end of a problem. `leaf` is that of the event that replaced the key. */
function tooLate(size: number, keyId: string, leaf: number): string {
  return `${size} events, and the key ${keyId} signed it, which event ${leaf + 1} of the log replaced`;
}
