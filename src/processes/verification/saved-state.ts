import { hash, type KeyObject } from 'node:crypto';
import { DomainError } from '../../domain/errors.ts';
import type { Hash } from '../../domain/proof/hash.ts';
import type { DamagedCheckpoint, KeptCheckpoint } from './kept-checkpoints.ts';
import type { Agreed } from './signed-differences.ts';
import type { VerificationState } from './verify-log.ts';

/** What a saved state belongs to: it fits no other log, checkpoints and keys. */
interface Run {
  logId: string;
  checkpoints: KeptCheckpoint[];
  damaged: DamagedCheckpoint[];
  /** That the reader gave. */
  keys: readonly KeyObject[];
}

/** Raised when the state changes. */
const VERSION = 6;

const hex = (bytes: Hash) => Buffer.from(bytes).toString('hex');
const bytes = (text: string) => Buffer.from(text, 'hex');

/** Returns the state as a document in JSON. */
export function writeState(state: VerificationState, run: Run): string {
  return JSON.stringify({ version: VERSION, run: nameOf(run), ...toSaved(state) });
}

/**
 * Reads a saved state. Throws `validation_failed` for one of another log, of other checkpoints or
 * keys, or of another version.
 */
export function readState(text: string, run: Run): VerificationState {
  const saved = parse(text);
  if (saved === null || saved.version !== VERSION || saved.run !== nameOf(run))
    throw new DomainError(
      'validation_failed',
      'The saved progress is of another log, of other checkpoints or keys, or of another version: ' +
        'delete it, or name another file',
    );
  const { version: _, run: __, ...state } = saved;
  return fromSaved(state);
}

/** The same without bytes and large integers, which JSON does not have. */
type Saved<Value> = Value extends bigint | Hash
  ? string
  : Value extends object
    ? { [Key in keyof Value]: Saved<Value[Key]> }
    : Value;

function toSaved(state: VerificationState): Saved<VerificationState> {
  const placed = (agreed: Agreed | null) =>
    agreed && {
      ...{ size: agreed.size, position: String(agreed.position) },
      subtrees: agreed.subtrees.map(hex),
    };
  return {
    ...state,
    position: String(state.position),
    lastOfTransfers: String(state.lastOfTransfers),
    subtrees: state.subtrees.map(hex),
    waiting: state.waiting.map(({ hash, position }) => ({
      hash: hex(hash),
      position: String(position),
    })),
    agreed: placed(state.agreed),
    agreedInLog: placed(state.agreedInLog),
    contradicts: state.contradicts && { ...state.contradicts, root: hex(state.contradicts.root) },
  };
}

function fromSaved(state: Saved<VerificationState>): VerificationState {
  const placed = (agreed: Saved<Agreed> | null) =>
    agreed && {
      ...{ size: agreed.size, position: BigInt(agreed.position) },
      subtrees: agreed.subtrees.map(bytes),
    };
  return {
    ...state,
    position: BigInt(state.position),
    lastOfTransfers: BigInt(state.lastOfTransfers),
    subtrees: state.subtrees.map(bytes),
    waiting: state.waiting.map(({ hash, position }) => ({
      hash: bytes(hash),
      position: BigInt(position),
    })),
    agreed: placed(state.agreed),
    agreedInLog: placed(state.agreedInLog),
    contradicts: state.contradicts && { ...state.contradicts, root: bytes(state.contradicts.root) },
  };
}

type SavedRun = Saved<VerificationState> & { version: number; run: string };

function parse(text: string): SavedRun | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function nameOf({ logId, checkpoints, damaged, keys }: Run): string {
  const lines = checkpoints.map(({ size, root }) => `${size} ${hex(root)}\n`);
  const faults = damaged.map(({ source, problem }) => `${source}: ${problem}\n`);
  const given = keys.map((key) => key.export({ format: 'pem', type: 'spki' }));
  return hash('sha256', `${logId}\n${lines.join('')}${faults.join('')}${given.join('')}`);
}
