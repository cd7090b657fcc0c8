/*
 * SSH packets for AES-GCM (RFC 4253, section 6, and RFC 5647): length, length of the padding,
 * payload, padding, tag.
 *
 * All packets of a thread have the same padding. ssh2 asks for random bytes for each packet, which
 * takes longer than its encryption. AES-GCM hides and protects constant bytes as well.
 */
import { randomBytes } from 'node:crypto';
import type { Cipher } from './internals.ts';

/** Bytes of a packet before its payload. */
export const HEAD_BYTES = 5;
const LENGTH_BYTES = 4;
const TAG_BYTES = 16;
const BLOCK_BYTES = 16;
const LEAST_PADDING = 4;
const PADDING = randomBytes(LEAST_PADDING + BLOCK_BYTES - 1);
/** Maximum bytes of a packet besides its payload. */
export const OVERHEAD_BYTES = HEAD_BYTES + PADDING.length + TAG_BYTES;

/**
 * Writes what a packet has before and after its payload, except for the tag. Returns the size of
 * the packet in bytes.
 */
export function frame(target: Buffer, start: number, payloadBytes: number): number {
  const unpadded = HEAD_BYTES - LENGTH_BYTES + payloadBytes;
  let padding = BLOCK_BYTES - (unpadded % BLOCK_BYTES);
  if (padding < LEAST_PADDING) padding += BLOCK_BYTES;
  target.writeUInt32BE(unpadded + padding, start);
  target[start + LENGTH_BYTES] = padding;
  target.set(PADDING.subarray(0, padding), start + HEAD_BYTES + payloadBytes);
  return LENGTH_BYTES + unpadded + padding + TAG_BYTES;
}

/** Lets ssh2 frame its own packets with the shared padding. */
export function framePackets(cipher: Pick<Cipher, 'allocPacket'>): void {
  cipher.allocPacket = (payloadBytes) => {
    const packet = Buffer.allocUnsafe(payloadBytes + OVERHEAD_BYTES);
    return packet.subarray(0, frame(packet, 0, payloadBytes));
  };
}
