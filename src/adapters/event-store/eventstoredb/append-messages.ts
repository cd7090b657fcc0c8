import { unpackToCommandError } from '@eventstore/db-client/dist/streams/appendToStream/unpackError.js';
import streamsPb from '@eventstore/db-client/generated/streams_pb.js';
import protobuf from 'protobufjs/minimal.js';
import type { ExpectedRevision } from '../port.ts';
import { isPosition, type NewRecord } from './records.ts';

/*
 * The messages of the server's call `BatchAppend`, as protobuf: `BatchAppendReq` and
 * `BatchAppendResp` of the protocol's `streams.proto`. The comments name the fields.
 *
 * The messages of the library would do the same, at five times the CPU time: they copy the content
 * of an event seven times, twice as base64.
 */

export interface Append {
  stream: string;
  expected: ExpectedRevision;
  records: NewRecord[];
}

export interface Appended {
  revision: number;
  /** Null if the server does not say. */
  position: bigint | null;
}

export interface Answer {
  /** The number that the append was sent with. */
  call: number;
  outcome: Appended | Error;
}

const LENGTH_DELIMITED = 2;
const VARINT = 0;
const field = (number: number, wireType: number) => (number << 3) | wireType;
const CONTENT_TYPE = protobuf.Writer.create()
  .uint32(field(1, LENGTH_DELIMITED))
  .string('content-type')
  .uint32(field(2, LENGTH_DELIMITED))
  .string('application/json')
  .finish();

/**
 * Returns an append as one message. `call` is a number that the answer repeats. The server rejects
 * an append that arrives after the deadline (epoch ms).
 */
export function encodeAppend(
  call: number,
  { stream, expected, records }: Append,
  deadline: number,
): Buffer {
  const message = protobuf.Writer.create();
  // correlation_id
  writeUuid(message.uint32(field(1, LENGTH_DELIMITED)), uuidOfCall(call));
  // options: stream_identifier, stream_position or no_stream, deadline
  message.uint32(field(2, LENGTH_DELIMITED)).fork();
  message.uint32(field(1, LENGTH_DELIMITED)).fork();
  message.uint32(field(3, LENGTH_DELIMITED)).string(stream).ldelim();
  if (expected === 'no_stream') message.uint32(field(3, LENGTH_DELIMITED)).uint32(0);
  else message.uint32(field(2, VARINT)).uint64(expected);
  message.uint32(field(6, LENGTH_DELIMITED)).fork();
  message.uint32(field(1, VARINT)).int64(Math.floor(deadline / 1_000));
  message.uint32(field(2, VARINT)).int32((deadline % 1_000) * 1_000_000);
  message.ldelim().ldelim();
  for (const { id, type, data, metadata } of records) {
    // proposed_messages: id, metadata (a map), custom_metadata, data
    message.uint32(field(3, LENGTH_DELIMITED)).fork();
    writeUuid(message.uint32(field(1, LENGTH_DELIMITED)), id);
    message.uint32(field(2, LENGTH_DELIMITED)).fork();
    message.uint32(field(1, LENGTH_DELIMITED)).string('type');
    message.uint32(field(2, LENGTH_DELIMITED)).string(type).ldelim();
    message.uint32(field(2, LENGTH_DELIMITED)).bytes(CONTENT_TYPE);
    message.uint32(field(3, LENGTH_DELIMITED)).string(metadata);
    message.uint32(field(4, LENGTH_DELIMITED)).string(data).ldelim();
  }
  // is_final
  return message.uint32(field(4, VARINT)).bool(true).finish() as Buffer;
}

/** Returns the answer in a message. */
export function decodeAnswer(message: Buffer): Answer {
  const reader = protobuf.Reader.create(message);
  let call = 0;
  let outcome: Appended | null = null;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    // correlation_id, success; anything else may be an error
    if (tag === field(1, LENGTH_DELIMITED)) call = readCall(reader);
    else if (tag === field(3, LENGTH_DELIMITED)) outcome = readAppended(reader);
    else reader.skipType(tag & 7);
  }
  return { call, outcome: outcome ?? errorIn(message) };
}

function readAppended(reader: protobuf.Reader): Appended {
  const appended: Appended = { revision: 0, position: null };
  const end = reader.uint32() + reader.pos;
  while (reader.pos < end) {
    const tag = reader.uint32();
    // current_revision, position
    if (tag === field(1, VARINT)) appended.revision = Number(bigint(reader.uint64()));
    else if (tag === field(3, LENGTH_DELIMITED)) appended.position = readPosition(reader);
    else reader.skipType(tag & 7);
  }
  return appended;
}

function readPosition(reader: protobuf.Reader): bigint | null {
  let commit = 0n;
  const end = reader.uint32() + reader.pos;
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === field(1, VARINT)) commit = bigint(reader.uint64());
    else reader.skipType(tag & 7);
  }
  return isPosition(commit) ? commit : null;
}

/** A call's number is in the last 48 bits of a UUID. The server may answer with text or numbers. */
function readCall(reader: protobuf.Reader): number {
  let call = 0;
  const end = reader.uint32() + reader.pos;
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag === field(2, LENGTH_DELIMITED)) call = Number.parseInt(reader.string().slice(-12), 16);
    else if (tag === field(1, LENGTH_DELIMITED)) {
      const bitsEnd = reader.uint32() + reader.pos;
      while (reader.pos < bitsEnd) {
        const half = reader.uint32();
        if (half === field(2, VARINT)) call = Number(BigInt.asUintN(48, bigint(reader.uint64())));
        else reader.skipType(half & 7);
      }
    } else reader.skipType(tag & 7);
  }
  return call;
}

function uuidOfCall(call: number): string {
  return `00000000-0000-4000-8000-${call.toString(16).padStart(12, '0')}`;
}

function writeUuid(message: protobuf.Writer, uuid: string): void {
  message.fork().uint32(field(2, LENGTH_DELIMITED)).string(uuid).ldelim();
}

function bigint(value: protobuf.Long | number): bigint {
  if (typeof value === 'number') return BigInt(value);
  return (BigInt(value.high >>> 0) << 32n) | BigInt(value.low >>> 0);
}

function errorIn(message: Buffer): Error {
  const answer = streamsPb.BatchAppendResp.deserializeBinary(message);
  const error = answer.getError();
  const stream = Buffer.from(answer.getStreamIdentifier()?.getStreamName_asU8() ?? '').toString();
  return error?.getDetails()
    ? unpackToCommandError(error, stream)
    : new Error(`unknown answer: ${error?.getMessage() ?? 'neither success nor error'}`);
}
