import type { KeyObject } from 'node:crypto';
import { fold } from '../events/decider.ts';
import { isAfterEvent } from '../transfers/after.ts';
import { transferDecider } from '../transfers/decider.ts';
import { endsTransfer, isClosed } from '../transfers/transfer.ts';
import { notSigned, parseCheckpoint, type TreeHead } from './checkpoint.ts';
import { type Hash, leafHash, sameHash } from './hash.ts';
import type { LeafContent } from './leaf.ts';
import { isSignedBy, keyIdOf, parseNote } from './note.ts';
import { rootOfInclusion } from './proofs.ts';

/** Proves all events of an ended transfer, to a reader who has only the public key. */
export interface Receipt {
  version: 1;
  transfer_id: string;
  /** Every event of the transfer, oldest first. */
  events: ProvenEvent[];
  /** A signed note. */
  checkpoint: string;
  /** PEM. */
  public_key: string;
}

export interface ProvenEvent {
  /** Place of the leaf in the tree, from 0. */
  index: number;
  /** The RFC 8785 form of the event and its place in its stream. */
  leaf: string;
  /** The audit path (RFC 6962), from the leaf up, in lowercase hex. */
  proof: string[];
}

export type ReceiptVerdict =
  /** `isClosed`: no step after the transfer lacks its outcome. */
  | { ok: true; head: TreeHead; keyId: string; events: LeafContent[]; isClosed: boolean }
  /** `otherKey`: the only problem is that none of the keys is the one that the signature names. */
  | { ok: false; otherKey: boolean; problems: string[] };

/**
 * Checks a receipt with public keys that the reader trusts, and nothing else: that one of them
 * signed the checkpoint, that each leaf is in its tree, and that the leaves are all events of one
 * transfer. The `public_key` in the receipt counts for nothing.
 */
export function verifyReceipt(receipt: Receipt, ...publicKeys: KeyObject[]): ReceiptVerdict {
  const note = parseNote(receipt.checkpoint);
  const head = note && parseCheckpoint(note.text);
  if (!note || !head) {
    const problems = ['the checkpoint is no signed checkpoint'];
    return { ok: false, otherKey: false, problems };
  }
  const signer = publicKeys.find((key) => isSignedBy(note, key, head.origin));
  const unsigned = signer ? null : notSigned(note, head, publicKeys);
  const problems: string[] = unsigned ? [unsigned.problem] : [];
  const events: LeafContent[] = [];
  for (const [i, { index, leaf, proof }] of receipt.events.entries()) {
    if (!isIn(head, index, leaf, proof))
      problems.push(`event ${i}: it is not leaf ${index} of the signed tree`);
    const event = parseLeaf(leaf);
    if (event === null) problems.push(`event ${i}: its leaf is no event`);
    else events.push(event);
    if (index <= (receipt.events[i - 1]?.index ?? -1))
      problems.push(`event ${i}: it is not after the event before it`);
  }
  problems.push(...incomplete(receipt.transfer_id, events));
  if (!signer || problems.length > 0) {
    const otherKey = problems.length === 1 && unsigned?.otherKey === true;
    return { ok: false, otherKey, problems };
  }
  const keyId = keyIdOf(head.origin, signer);
  return { ok: true, head, keyId, events, isClosed: isClosed(fold(transferDecider, events)) };
}

function isIn({ size, root }: TreeHead, index: number, leaf: string, proof: string[]): boolean {
  if (!Number.isSafeInteger(index) || !proof.every((hash) => /^[0-9a-f]{64}$/.test(hash)))
    return false;
  const path: Hash[] = proof.map((hash) => Buffer.from(hash, 'hex'));
  const found = rootOfInclusion(leafHash(leaf), index, size, path);
  return found !== null && sameHash(found, root);
}

function parseLeaf(leaf: string): LeafContent | null {
  try {
    const event = JSON.parse(leaf) as LeafContent | null;
    return typeof event === 'object' ? event : null;
  } catch {
    return null;
  }
}

function incomplete(transferId: string, events: LeafContent[]): string[] {
  const stream = `transfer-${transferId}`;
  const problems: string[] = [];
  for (const [i, event] of events.entries()) {
    if (event.stream !== stream) problems.push(`event ${i}: it is of the stream ${event.stream}`);
    else if (event.revision !== i)
      problems.push(`event ${i}: it has revision ${event.revision}, so events are missing`);
  }
  if (events.length === 0) return ['it has no event'];
  const named = (events[0]?.data as { transfer_id?: unknown } | undefined)?.transfer_id;
  if (typeof named !== 'string') problems.push('the first event does not create the transfer');
  else if (named !== transferId) problems.push(`the first event creates the transfer ${named}`);
  // The steps after a transfer may follow its end.
  if (!endsTransfer(events.findLast((event) => !isAfterEvent(event))?.type ?? ''))
    problems.push('the last event does not end the transfer');
  return problems;
}
