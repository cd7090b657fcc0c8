import { createHash } from 'node:crypto';
import { canonical } from '../canonical.ts';
import type { Report } from '../report.ts';
import type { LoggedEvent } from './event.ts';

const KEYS = ['log.key_created', 'log.key_rotated'];

/**
 * Checks the streams that the log keeps of itself: signing keys and checkpoints. Each checkpoint
 * must sign the root (RFC 6962) over the events before it, be larger than the one before, and name
 * the key of its time.
 */
export function createTreeCheck(report: Report): (event: LoggedEvent) => void {
  const leaves: Buffer[] = [];
  let signed = 0;
  let keyId: unknown = null;

  return (event) => {
    const { stream, revision, type, data } = event;
    const wrong = (problem: string) =>
      report.finding('log.checkpoints', `${stream} revision ${revision}`, problem);
    if (stream === 'log-keys') {
      if (type !== KEYS[Math.min(revision, 1)]) wrong(`no ${type} is expected here`);
      if (revision > 0 && data.previous_key_id !== keyId) wrong(`the key before is ${keyId}`);
      keyId = data.key_id;
    } else if (stream === 'log-checkpoints') {
      report.count('signed_checkpoints');
      const size = Number(data.size);
      if (type !== 'log.checkpoint_signed') wrong(`no ${type} is expected here`);
      if (!(size > signed && size <= leaves.length))
        wrong(`it covers ${size} events, after ${signed}, of ${leaves.length}`);
      else {
        const root = rootOf(leaves.slice(0, size));
        if (data.root_hash !== root.toString('hex')) wrong(`the root is ${root.toString('hex')}`);
        if (!String(data.note).includes(`\n${size}\n${root.toString('base64')}\n\n`))
          wrong('the note has another size or root');
      }
      if (data.key_id !== keyId) wrong(`it is signed by ${data.key_id}, and the key is ${keyId}`);
      signed = size;
    } else if (stream.startsWith('log-')) wrong(`there is no such stream`);
    leaves.push(leafOf(event));
  };
}

function leafOf({ position: _, ...event }: LoggedEvent): Buffer {
  return createHash('sha256')
    .update(`\0${canonical(event)}`)
    .digest();
}

function rootOf(hashes: Buffer[]): Buffer {
  if (hashes.length === 1) return hashes[0] as Buffer;
  let half = 1;
  while (half * 2 < hashes.length) half *= 2;
  return createHash('sha256')
    .update(Buffer.of(1))
    .update(rootOf(hashes.slice(0, half)))
    .update(rootOf(hashes.slice(half)))
    .digest();
}
