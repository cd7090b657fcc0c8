import shared from '@eventstore/db-client/generated/shared_pb.js';
import streamsPb from '@eventstore/db-client/generated/streams_pb.js';
import fc from 'fast-check';
import { ulidToUUID } from 'ulid';
import { describe, expect, it } from 'vitest';
import {
  decodeAnswer,
  encodeAppend,
} from '../../../src/adapters/event-store/eventstoredb/append-messages.ts';
import { createFrameReader, frame } from '../../../src/adapters/event-store/eventstoredb/frames.ts';
import { toRecord } from '../../../src/adapters/event-store/eventstoredb/records.ts';
import { toEventId, toUuid } from '../../../src/adapters/event-store/eventstoredb/uuid.ts';
import { newId } from '../../../src/domain/ids.ts';
import { event } from './events.ts';

const anyTime = fc.integer({ min: 0, max: 2 ** 48 - 1 });

describe('the id of an event and its UUID', () => {
  it('are the same 128 bits', () => {
    fc.assert(
      fc.property(anyTime, (time) => {
        const id = newId('evt', time);
        expect(toUuid(id)).toBe(ulidToUUID(id.slice('evt_'.length)).toLowerCase());
        expect(toEventId(toUuid(id))).toBe(id);
      }),
    );
    const last = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    expect(toUuid(toEventId(last))).toBe(last);
  });

  it.each(['', 'evt_', 'evt_01', `txr_${'0'.repeat(26)}`, `evt_8${'0'.repeat(25)}`])(
    'are not made of %j',
    (id) => expect(() => toUuid(id)).toThrow(TypeError),
  );
});

describe('the message of an append', () => {
  it.each([
    ['no_stream', ''],
    [0, '0'],
    [4_294_967_296, '4294967296'],
  ] as const)('at revision %s has what the library reads', (expected, position) => {
    const records = [event(), { ...event(), data: { text: 'naïve 😀' } }].map(toRecord);
    const bytes = encodeAppend(2 ** 40 + 1, { stream: 'waybill_ü-1', expected, records }, 3_250);
    const message = streamsPb.BatchAppendReq.deserializeBinary(bytes);
    const options = message.getOptions()!;
    expect(message.getCorrelationId()?.getString()).toBe('00000000-0000-4000-8000-010000000001');
    expect(Buffer.from(options.getStreamIdentifier()!.getStreamName_asU8()).toString()).toBe(
      'waybill_ü-1',
    );
    expect(options.hasNoStream()).toBe(expected === 'no_stream');
    expect(options.hasStreamPosition() ? options.getStreamPosition() : '').toBe(position);
    // The library lacks the field `deadline`, a duration: 3 s and 250,000,000 ns.
    expect(options.getDeadline()).toBeUndefined();
    expect(bytes.toString('hex')).toContain('3a0708031080e59a77');
    expect(message.getIsFinal()).toBe(true);
    const sent = message.getProposedMessagesList().map((proposed) => ({
      id: proposed.getId()?.getString(),
      type: proposed.getMetadataMap().get('type'),
      contentType: proposed.getMetadataMap().get('content-type'),
      data: Buffer.from(proposed.getData_asU8()).toString(),
      metadata: Buffer.from(proposed.getCustomMetadata_asU8()).toString(),
    }));
    expect(sent).toEqual(records.map((each) => ({ ...each, contentType: 'application/json' })));
  });
});

describe('the answer to an append', () => {
  const position = (2n ** 40n + 5n).toString();
  const success = new streamsPb.BatchAppendResp.Success()
    .setCurrentRevision('7')
    .setPosition(
      new shared.AllStreamPosition().setCommitPosition(position).setPreparePosition(position),
    );
  const answerTo = (uuid: shared.UUID) =>
    new streamsPb.BatchAppendResp().setCorrelationId(uuid).setSuccess(success);
  const decode = (answer: streamsPb.BatchAppendResp) =>
    decodeAnswer(Buffer.from(answer.serializeBinary()));

  it('names its call by a UUID as text or as two numbers', () => {
    const outcome = { revision: 7, position: BigInt(position) };
    const text = new shared.UUID().setString('00000000-0000-4000-8000-010000000001');
    expect(decode(answerTo(text))).toEqual({ call: 2 ** 40 + 1, outcome });
    const bits = new shared.UUID.Structured()
      .setMostSignificantBits('16384')
      .setLeastSignificantBits(BigInt.asIntN(64, 0x8000_0100_0000_0001n).toString());
    const numbers = new shared.UUID().setStructured(bits);
    expect(decode(answerTo(numbers))).toEqual({ call: 2 ** 40 + 1, outcome });
  });

  it('may have no position, or an error of a kind that the library does not know', () => {
    const uuid = new shared.UUID().setString('00000000-0000-4000-8000-000000000001');
    const bare = answerTo(uuid).setSuccess(
      new streamsPb.BatchAppendResp.Success().setCurrentRevision('0'),
    );
    expect(decode(bare)).toEqual({ call: 1, outcome: { revision: 0, position: null } });
    const failed = new streamsPb.BatchAppendResp().setCorrelationId(uuid);
    expect(decode(failed).outcome).toBeInstanceOf(Error);
  });
});

describe('messages in frames', () => {
  it('are read whole, wherever the chunks end', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 20 })),
        fc.integer({ min: 1, max: 30 }),
        (messages, chunkBytes) => {
          const bytes = Buffer.concat(messages.map(frame));
          const received: Uint8Array[] = [];
          const read = createFrameReader((message) => received.push(new Uint8Array(message)));
          for (let at = 0; at < bytes.length; at += chunkBytes)
            read(bytes.subarray(at, at + chunkBytes));
          expect(received).toEqual(messages);
        },
      ),
    );
  });

  it('must not be compressed', () => {
    const compressed = frame(Buffer.from('x'));
    compressed.writeUInt8(1, 0);
    expect(() => createFrameReader(() => undefined)(compressed)).toThrow('compresses');
  });
});
