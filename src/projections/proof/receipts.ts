import { createPublicKey } from 'node:crypto';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { notFound } from '../../domain/errors.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { streamName } from '../../domain/events/streams.ts';
import { isId } from '../../domain/ids.ts';
import { leafHash } from '../../domain/proof/hash.ts';
import { leafOf } from '../../domain/proof/leaf.ts';
import { LogChanged, PROOF_REMEDY } from '../../domain/proof/log-changed.ts';
import { type Receipt, verifyReceipt } from '../../domain/proof/receipt.ts';
import { endsTransfer, type TransferCreated } from '../../domain/transfers/transfer.ts';
import { LIVE_SCHEMA } from '../read-models.ts';
import { throwNotFound } from '../retention/removed-transfers.ts';
import { checkpointOver, findSigningKey, foldedUntil } from './queries.ts';
import { findLeaves, inclusionProofs } from './tiles.ts';

/**
 * A receipt with the account of its transfer, or what it waits for: the end of the transfer
 * (`open`), or a checkpoint that covers the end (`not_covered`).
 */
export type ReceiptAnswer =
  | { state: 'ready'; receipt: Receipt; owner: string }
  | { state: 'open' }
  | { state: 'not_covered' };

/**
 * Makes the receipt of a transfer. Names the first checkpoint that covers its last event, so it is
 * the same each time. The steps after a transfer make it longer. `accountId` null means any
 * account. Throws `not_found`, and LogChanged if the events or the tables of the tree are no longer
 * as they were folded.
 */
export async function makeReceipt(
  { sql, store }: { sql: Sql; store: EventStore },
  accountId: string | null,
  transferId: string,
): Promise<ReceiptAnswer> {
  const events = isId('txr', transferId)
    ? await store.read(streamName('transfer', transferId))
    : [];
  if (events.length === 0) return throwNotFound(sql, accountId, transferId);
  const owner = (events[0]?.data as TransferCreated | undefined)?.account_id;
  const last = events.at(-1);
  if (owner === undefined || last === undefined || (accountId !== null && owner !== accountId))
    throw notFound('transfer');
  if (!events.some(({ type }) => endsTransfer(type))) return { state: 'open' };
  if ((await foldedUntil(sql)) < last.position) return { state: 'not_covered' };

  const leaves = events.map((event) => {
    const leaf = leafOf(event);
    return { event, leaf, hash: leafHash(leaf) };
  });
  const found = await findLeaves(sql, LIVE_SCHEMA, leaves);
  const indexes = leaves.map((leaf) => found.get(leaf) ?? missing(leaf.event));
  const checkpoint = await checkpointOver(sql, indexes.at(-1) as number);
  if (checkpoint === null) return { state: 'not_covered' };
  const publicKey = await findSigningKey(sql, checkpoint.key_id);
  if (publicKey === null)
    throw new LogChanged(
      `the table read.proof_keys lacks the key ${checkpoint.key_id}, which signed a checkpoint. ` +
        PROOF_REMEDY,
    );
  const proofs = await inclusionProofs(sql, LIVE_SCHEMA, indexes, checkpoint.size);
  const receipt: Receipt = {
    version: 1,
    transfer_id: transferId,
    events: leaves.map(({ leaf }, i) => ({
      index: indexes[i] as number,
      leaf,
      proof: (proofs[i] ?? []).map((hash) => Buffer.from(hash).toString('hex')),
    })),
    checkpoint: checkpoint.note,
    public_key: publicKey,
  };
  requireGenuine(receipt);
  return { state: 'ready', owner, receipt };
}

/** Throws LogChanged for a receipt that proves nothing: its reader would find out much later. */
function requireGenuine(receipt: Receipt): void {
  const problems = problemsOf(receipt);
  if (problems.length > 0)
    throw new LogChanged(
      `the receipt of ${receipt.transfer_id} would prove nothing (${problems.join('; ')}): the log ` +
        `or the tables of the tree were changed. ${PROOF_REMEDY}`,
    );
}

function problemsOf(receipt: Receipt): string[] {
  try {
    const verdict = verifyReceipt(receipt, createPublicKey(receipt.public_key));
    return verdict.ok ? [] : verdict.problems;
  } catch (error) {
    return [`the key that signed is no public key: ${(error as Error).message}`];
  }
}

function missing({ stream, revision, id }: StoredEvent): never {
  throw new LogChanged(
    `${stream} revision ${revision} (${id}) is not as it was when it was folded into the tree: ` +
      `the log or the table read.proof_tiles was changed. ${PROOF_REMEDY}`,
  );
}
