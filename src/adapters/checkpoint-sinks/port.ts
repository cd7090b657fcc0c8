import type { Hash } from '../../domain/proof/hash.ts';

export interface SentCheckpoint {
  /** Number of events that it covers. */
  size: number;
  /** The signed note. */
  note: string;
}

/** A place outside the installation that keeps checkpoints. */
export interface CheckpointSink {
  /**
   * Returns the note of the largest checkpoint that the place has. Null if it has none, or does not
   * show them: a witness compares by itself.
   */
  newest(): Promise<string | null>;
  /**
   * Returns false if the place has lost the checkpoint of a size that it took. True for a place that
   * does not show what it has.
   */
  has(size: number): Promise<boolean>;
  /**
   * Keeps a checkpoint. `prove` returns the proof that it extends the checkpoint of another size.
   * Resolves if the place has it already. Throws if it does not take it, and SinkRefuses if it
   * never will.
   */
  keep(checkpoint: SentCheckpoint, prove: (from: number) => Promise<Hash[]>): Promise<void>;
}

/** The place holds a checkpoint that contradicts this one: one of the two logs was changed. */
export class SinkRefuses extends Error {
  override readonly name = 'SinkRefuses';
}

const SIZE_DIGITS = 12;
const CHECKPOINT_FILE = /^checkpoint-(\d{12})\.txt$/;

/** Returns the name of the file that keeps the checkpoint of a size. Names sort by size. */
export function checkpointFile(size: number): string {
  return `checkpoint-${String(size).padStart(SIZE_DIGITS, '0')}.txt`;
}

/** Returns the size of the checkpoint in a file of this name; null for other names. */
export function sizeInName(name: string): number | null {
  const [, size] = CHECKPOINT_FILE.exec(name) ?? [];
  return size === undefined ? null : Number(size);
}

/** Returns the name of the file with the largest checkpoint among the files of a folder. */
export function newestFile(names: string[]): string | null {
  return (
    names
      .filter((name) => sizeInName(name) !== null)
      .sort()
      .at(-1) ?? null
  );
}
