import type protobuf from 'protobufjs/minimal.js';

/* What the messages of the server's protocol have in common. */

const VARINT = 0;
const LENGTH_DELIMITED = 2;

/** Returns the tag of a field whose value is a number. */
export const numberField = (field: number) => (field << 3) | VARINT;
/** Returns the tag of a field whose value is text, bytes or a message. */
export const field = (number: number) => (number << 3) | LENGTH_DELIMITED;

/**
 * Reads a message up to `end`. Calls `read` with the tag of each field, in their order. It reads
 * the value, or returns false to skip it.
 */
export function readFields(
  reader: protobuf.Reader,
  end: number,
  read: (tag: number) => boolean,
): void {
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (!read(tag)) reader.skipType(tag & 7);
  }
}

/** Reads a message inside another one, like `readFields`. */
export function readMessage(reader: protobuf.Reader, read: (tag: number) => boolean): true {
  readFields(reader, reader.uint32() + reader.pos, read);
  return true;
}

/** Reads an unsigned number of 64 bits. */
export function readUint64(reader: protobuf.Reader): bigint {
  const value = reader.uint64() as protobuf.Long | number;
  if (typeof value === 'number') return BigInt(value);
  return (BigInt(value.high >>> 0) << 32n) | BigInt(value.low >>> 0);
}
