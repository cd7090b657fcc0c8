import { hash, type KeyObject } from 'node:crypto';
import { DomainError } from '../../domain/errors.ts';
import type { Hash } from '../../domain/proof/hash.ts';
import type { DamagedCheckpoint, KeptCheckpoint } from './kept-checkpoints.ts';
import type { VerificationState } from './verify-log.ts';

/** What a saved state belongs to: it fits no other log, checkpoints and keys. */
interface Run {
  logId: string;
  checkpoints: KeptCheckpoint[];
  damaged: DamagedCheckpoint[];
  /** That the reader gave. */
  keys: readonly KeyObject[];
}

const hex = (bytes: Hash) => Buffer.from(bytes).toString('hex');
const bytes = (text: string) => Buffer.from(text, 'hex');

/** Returns the state as a document in JSON. */
export function writeState({ agreed, ...state }: VerificationState, run: Run): string {
  return JSON.stringify({
    version: 5,
    run: nameOf(run),
    ...state,
    position: String(state.position),
    lastOfTransfers: String(state.lastOfTransfers),
    subtrees: state.subtrees.map(hex),
    agreed: agreed && {
      ...agreed,
      position: String(agreed.position),
      subtrees: agreed.subtrees.map(hex),
    },
  });
}

/**
 * Reads a saved state. Throws `validation_failed` for one of another log, of other checkpoints or
 * keys, or of another version.
 */
export function readState(text: string, run: Run): VerificationState {
  const saved = parse(text);
  if (saved === null || saved.version !== 5 || saved.run !== nameOf(run))
    throw new DomainError(
      'validation_failed',
      'The saved progress is of another log, of other checkpoints or keys, or of another version: ' +
        'delete it, or name another file',
    );
  const { version: _, run: __, ...state } = saved;
  return {
    ...state,
    position: BigInt(state.position),
    lastOfTransfers: BigInt(state.lastOfTransfers),
    subtrees: state.subtrees.map(bytes),
    agreed: state.agreed && {
      ...state.agreed,
      position: BigInt(state.agreed.position),
      subtrees: state.agreed.subtrees.map(bytes),
    },
  };
}

interface Saved
  extends Omit<VerificationState, 'position' | 'lastOfTransfers' | 'subtrees' | 'agreed'> {
  version: number;
  run: string;
  position: string;
  lastOfTransfers: string;
  subtrees: string[];
  agreed: { size: number; position: string; subtrees: string[] } | null;
}

function parse(text: string): Saved | null {
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
