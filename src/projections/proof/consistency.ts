import type { Sql } from '../../adapters/postgres/connect.ts';
import { headOfNote } from '../../domain/proof/checkpoint.ts';
import type { Hash } from '../../domain/proof/hash.ts';
import { LogChanged, PROOF_REMEDY } from '../../domain/proof/log-changed.ts';
import { isConsistent } from '../../domain/proof/proofs.ts';
import { LIVE_SCHEMA } from '../read-models.ts';
import { checkpointOfSize } from './queries.ts';
import { consistencyProof, rootAt } from './tiles.ts';

/**
 * Returns the proof that the tree of a checkpoint begins with the tree of `from` leaves. Throws
 * RangeError if the checkpoint covers fewer, and LogChanged if the tables prove something else than
 * what was signed: the reader of such a proof would find out much later.
 */
export async function proveConsistency(
  sql: Sql,
  from: number,
  { size, note }: { size: number; note: string },
): Promise<Hash[]> {
  const proof = await consistencyProof(sql, LIVE_SCHEMA, from, size);
  const older = await checkpointOfSize(sql, from);
  const root = older ? headOfNote(older.note)?.root : await rootAt(sql, LIVE_SCHEMA, from);
  const signed = headOfNote(note);
  if (!root || !signed || !isConsistent({ size: from, root }, signed, proof))
    throw new LogChanged(
      `the tables of the tree do not prove that the checkpoint over ${size} events begins with ` +
        `the tree of ${from}: the log or the tables were changed. ${PROOF_REMEDY}`,
    );
  return proof;
}
