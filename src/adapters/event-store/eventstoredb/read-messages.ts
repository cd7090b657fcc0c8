import protobuf from 'protobufjs/minimal.js';
import { field, numberField, readFields, readMessage, readUint64 } from './protobuf.ts';
import { isPosition, type RecordedEvent } from './records.ts';

/*
 * The answers of the server's call `Read` to a subscription, as protobuf: `ReadResp` of the
 * protocol's `streams.proto`. The comments name the fields.
 *
 * The messages of the library would do the same, at three times the CPU time.
 */

export type ReadAnswer =
  /** `bytes` is the size of the message. */
  | { kind: 'event'; record: RecordedEvent; bytes: number }
  | { kind: 'checkpoint'; position: bigint }
  | { kind: 'caught_up' }
  | { kind: 'other' };

const OTHER: ReadAnswer = { kind: 'other' };
const CAUGHT_UP: ReadAnswer = { kind: 'caught_up' };

/** Returns the answer in a message. */
export function decodeReadAnswer(message: Buffer): ReadAnswer {
  const reader = protobuf.Reader.create(message);
  let answer = OTHER;
  readFields(reader, reader.len, (tag) => {
    // event, checkpoint, caught_up
    if (tag === field(1)) {
      const record = readEvent(reader);
      if (record !== null) answer = { kind: 'event', record, bytes: message.length };
      return true;
    }
    if (tag === field(3)) {
      const position = readCheckpoint(reader);
      if (isPosition(position)) answer = { kind: 'checkpoint', position };
      return true;
    }
    if (tag === field(8)) answer = CAUGHT_UP;
    return false;
  });
  return answer;
}

function readCheckpoint(reader: protobuf.Reader): bigint {
  let commit = 0n;
  readMessage(reader, (tag) => {
    // commit_position
    if (tag !== numberField(1)) return false;
    commit = readUint64(reader);
    return true;
  });
  return commit;
}

function readEvent(reader: protobuf.Reader): RecordedEvent | null {
  let record: RecordedEvent | null = null;
  readMessage(reader, (tag) => {
    // event: the other fields are for links
    if (tag !== field(1)) return false;
    record = readRecord(reader);
    return true;
  });
  return record;
}

function readRecord(reader: protobuf.Reader): RecordedEvent {
  const record = { id: '', type: '', streamId: '', revision: 0n, position: { commit: 0n } };
  let contentType = '';
  let metadata: Uint8Array = Buffer.alloc(0);
  let data: Uint8Array = metadata;
  readMessage(reader, (tag) => {
    switch (tag) {
      case field(1): // id
        return readMessage(reader, (inner) => {
          if (inner !== field(2)) return false;
          record.id = reader.string();
          return true;
        });
      case field(2): // stream_identifier
        return readMessage(reader, (inner) => {
          if (inner !== field(3)) return false;
          record.streamId = reader.string();
          return true;
        });
      case numberField(3): // stream_revision
        record.revision = readUint64(reader);
        return true;
      case numberField(5): // commit_position
        record.position.commit = readUint64(reader);
        return true;
      case field(6): {
        // metadata, an entry of the map
        let key = '';
        let value = '';
        readMessage(reader, (inner) => {
          if (inner === field(1)) key = reader.string();
          else if (inner === field(2)) value = reader.string();
          else return false;
          return true;
        });
        if (key === 'type') record.type = value;
        else if (key === 'content-type') contentType = value;
        return true;
      }
      case field(7): // custom_metadata
        metadata = reader.bytes();
        return true;
      case field(8): // data
        data = reader.bytes();
        return true;
      default:
        return false;
    }
  });
  const isJson = contentType === 'application/json';
  return { ...record, metadata: parsed(metadata), data: isJson ? parsed(data) : data };
}

/** Returns the text itself if it is not JSON. */
function parsed(bytes: Uint8Array): unknown {
  const text = bytes.toString();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
