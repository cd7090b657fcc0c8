import { unpackToCommandError } from '@eventstore/db-client/dist/streams/appendToStream/unpackError.js';
import streamsPb from '@eventstore/db-client/generated/streams_pb.js';
import protobuf from 'protobufjs/minimal.js';
import type { ExpectedRevision } from '../port.ts';
import { field, numberField, readFields, readMessage, readUint64 } from './protobuf.ts';
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

const CONTENT_TYPE = protobuf.Writer.create()
  .uint32(field(1))
  .string('content-type')
  .uint32(field(2))
  .string('application/json')
  .finish();

/**
 * Returns an append as one message. `call` is a number that the answer repeats. The server rejects
 * an append whose time is over when it arrives, and writes any other, however late. So `ms` as a
 * duration always has time left. The library sends a time of day in place of that: a server whose
 * clock is ahead by more rejects every append.
 */
export function encodeAppend(
  call: number,
  { stream, expected, records }: Append,
  ms: number,
): Buffer {
  const message = protobuf.Writer.create();
  // correlation_id
  writeUuid(message.uint32(field(1)), uuidOfCall(call));
  // options: stream_identifier, stream_position or no_stream, deadline
  message.uint32(field(2)).fork();
  message.uint32(field(1)).fork();
  message.uint32(field(3)).string(stream).ldelim();
  if (expected === 'no_stream') message.uint32(field(3)).uint32(0);
  else message.uint32(numberField(2)).uint64(expected);
  message.uint32(field(7)).fork();
  message.uint32(numberField(1)).int64(Math.floor(ms / 1_000));
  message.uint32(numberField(2)).int32((ms % 1_000) * 1_000_000);
  message.ldelim().ldelim();
  for (const { id, type, data, metadata } of records) {
    // proposed_messages: id, metadata (a map), custom_metadata, data
    message.uint32(field(3)).fork();
    writeUuid(message.uint32(field(1)), id);
    message.uint32(field(2)).fork();
    message.uint32(field(1)).string('type');
    message.uint32(field(2)).string(type).ldelim();
    message.uint32(field(2)).bytes(CONTENT_TYPE);
    message.uint32(field(3)).string(metadata);
    message.uint32(field(4)).string(data).ldelim();
  }
  // is_final
  return message.uint32(numberField(4)).bool(true).finish() as Buffer;
}

/** Returns the answer in a message. */
export function decodeAnswer(message: Buffer): Answer {
  const reader = protobuf.Reader.create(message);
  let call = 0;
  let outcome: Appended | null = null;
  readFields(reader, reader.len, (tag) => {
    // correlation_id, success; anything else may be an error
    if (tag === field(1)) call = readCall(reader);
    else if (tag === field(3)) outcome = readAppended(reader);
    else return false;
    return true;
  });
  return { call, outcome: outcome ?? errorIn(message) };
}

function readAppended(reader: protobuf.Reader): Appended {
  const appended: Appended = { revision: 0, position: null };
  readMessage(reader, (tag) => {
    // current_revision, position
    if (tag === numberField(1)) appended.revision = Number(readUint64(reader));
    else if (tag === field(3)) appended.position = readPosition(reader);
    else return false;
    return true;
  });
  return appended;
}

function readPosition(reader: protobuf.Reader): bigint | null {
  let commit = 0n;
  readMessage(reader, (tag) => {
    if (tag !== numberField(1)) return false;
    commit = readUint64(reader);
    return true;
  });
  return isPosition(commit) ? commit : null;
}

/** A call's number is in the last 48 bits of a UUID. The server may answer with text or numbers. */
function readCall(reader: protobuf.Reader): number {
  let call = 0;
  const readBits = (tag: number) => {
    if (tag !== numberField(2)) return false;
    call = Number(BigInt.asUintN(48, readUint64(reader)));
    return true;
  };
  readMessage(reader, (tag) => {
    if (tag === field(1)) return readMessage(reader, readBits);
    if (tag !== field(2)) return false;
    call = Number.parseInt(reader.string().slice(-12), 16);
    return true;
  });
  return call;
}

function uuidOfCall(call: number): string {
  return `00000000-0000-4000-8000-${call.toString(16).padStart(12, '0')}`;
}

function writeUuid(message: protobuf.Writer, uuid: string): void {
  message.fork().uint32(field(2)).string(uuid).ldelim();
}

function errorIn(message: Buffer): Error {
  const answer = streamsPb.BatchAppendResp.deserializeBinary(message);
  const error = answer.getError();
  const stream = Buffer.from(answer.getStreamIdentifier()?.getStreamName_asU8() ?? '').toString();
  return error?.getDetails()
    ? unpackToCommandError(error, stream)
    : new Error(`unknown answer: ${error?.getMessage() ?? 'neither success nor error'}`);
}
