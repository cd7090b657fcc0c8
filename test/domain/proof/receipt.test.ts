import { generateKeyPairSync } from 'node:crypto';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { checkpointText } from '../../../src/domain/proof/checkpoint.ts';
import { leafHash } from '../../../src/domain/proof/hash.ts';
import { leafOf } from '../../../src/domain/proof/leaf.ts';
import { keyIdOf, parseNote, signNote } from '../../../src/domain/proof/note.ts';
import { inclusionRanges } from '../../../src/domain/proof/proofs.ts';
import { type Receipt, verifyReceipt } from '../../../src/domain/proof/receipt.ts';
import { extendTiles, rangeHash, readNodes } from '../../../src/domain/proof/tiles.ts';
import { createLog } from '../../support/domain/histories.ts';
import {
  AFTER_EVENTS,
  started,
  TRANSFER_EVENTS,
  transferCreated,
} from '../../support/domain/samples.ts';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const ORIGIN = 'waybill/test';

function history(): StoredEvent[] {
  const log = createLog();
  for (const id of ['txr_1', 'txr_2']) {
    log.append(`transfer-${id}`, {
      type: 'transfer.created',
      data: transferCreated({ transfer_id: id }),
    });
    log.append(`transfer-${id}`, TRANSFER_EVENTS.cancelled);
  }
  return log.events;
}

function receiptOf(
  transfer_id: string,
  events: StoredEvent[],
  of = events.filter(({ stream }) => stream === `transfer-${transfer_id}`),
): Receipt {
  const node = readNodes(
    extendTiles(
      [],
      events.map((event) => leafHash(leafOf(event))),
    ),
  );
  const size = events.length;
  const root = rangeHash({ start: 0, end: size }, node);
  return {
    version: 1,
    transfer_id,
    events: of.map((event) => {
      const index = events.indexOf(event);
      const proof = inclusionRanges(index, size).map((range) =>
        Buffer.from(rangeHash(range, node)).toString('hex'),
      );
      return { index, leaf: leafOf(event), proof };
    }),
    checkpoint: signNote(checkpointText({ origin: ORIGIN, size, root }), ORIGIN, [privateKey]),
    public_key: publicKey.export({ format: 'pem', type: 'spki' }) as string,
  };
}

const problemsOf = (receipt: Receipt, key = publicKey) => {
  const verdict = verifyReceipt(receipt, key);
  return verdict.ok ? [] : verdict.problems;
};

describe('a leaf', () => {
  it('is the canonical form of an event without its position', () => {
    const event: StoredEvent = {
      position: 7n,
      stream: 'transfer-txr_1',
      revision: 0,
      id: 'evt_1',
      type: 'transfer.created',
      schema_version: 1,
      data: { b: 1, a: 'ü', '10': 1e21 },
      metadata: {
        prev_hash: null,
        actor: 'system',
        account_id: null,
        correlation_id: 'req_1',
        causation_id: null,
        occurred_at: '2026-01-01T00:00:00.000Z',
      },
    };
    expect(leafOf(event)).toBe(
      '{"data":{"10":1e+21,"a":"ü","b":1},"id":"evt_1","metadata":{"account_id":null,' +
        '"actor":"system","causation_id":null,"correlation_id":"req_1",' +
        '"occurred_at":"2026-01-01T00:00:00.000Z","prev_hash":null},"revision":0,' +
        '"schema_version":1,"stream":"transfer-txr_1","type":"transfer.created"}',
    );
  });

  it('is canonical, whatever the order of its keys', () => {
    const json = fc.jsonValue({ noUnicodeString: false } as never);
    fc.assert(
      fc.property(json, (data) => {
        const parsed = JSON.parse(JSON.stringify(data)) as unknown;
        const event = { ...(history()[0] as StoredEvent), data: parsed };
        const { position: _, ...content } = event;
        expect(leafOf(event)).toBe(canonicalize(content));
      }),
    );
  });
});

describe('a receipt', () => {
  const events = history();

  it('proves all events of a transfer with the public key alone', () => {
    const verdict = verifyReceipt({ ...receiptOf('txr_1', events), public_key: '' }, publicKey);
    expect(verdict).toMatchObject({ ok: true, head: { origin: ORIGIN, size: events.length } });
    expect(verdict.ok && verdict.events.map(({ type }) => type)).toEqual([
      'transfer.created',
      'transfer.cancelled',
    ]);
  });

  it('says whether steps after the transfer lack their outcome', () => {
    const log = createLog();
    const after = { destination_marker: '.done', source: 'delete' } as const;
    const created = transferCreated({ transfer_id: 'txr_3', after });
    const { versioned, marked, deleted } = AFTER_EVENTS;
    for (const event of [
      { type: 'transfer.created', data: created },
      TRANSFER_EVENTS.admitted,
      { type: 'transfer.in_progress', data: started() },
      ...[versioned, marked, deleted],
    ])
      log.append('transfer-txr_3', event);
    const whole = receiptOf('txr_3', log.events);
    const verdictOf = (count: number) =>
      verifyReceipt({ ...whole, events: whole.events.slice(0, count) }, publicKey);
    expect(verdictOf(6)).toMatchObject({ ok: true, isClosed: true });
    expect(verdictOf(5)).toMatchObject({ ok: true, isClosed: false });
    expect(verdictOf(4)).toMatchObject({ ok: true, isClosed: false });
    expect(verdictOf(3)).toMatchObject({ ok: false });
  });

  const genuine = receiptOf('txr_1', events);
  const [first, last] = genuine.events as [Receipt['events'][0], Receipt['events'][0]];
  const other = receiptOf('txr_2', events).events[0] as Receipt['events'][0];
  it.each<[string, Receipt, string]>([
    [
      'a changed leaf',
      { ...genuine, events: [{ ...first, leaf: first.leaf.replace('a.csv', 'b.csv') }, last] },
      'event 0: it is not leaf 0 of the signed tree',
    ],
    [
      'a changed index',
      { ...genuine, events: [first, { ...last, index: 2 }] },
      'event 1: it is not leaf 2 of the signed tree',
    ],
    [
      'a changed path',
      { ...genuine, events: [first, { ...last, proof: first.proof }] },
      'event 1: it is not leaf 1 of the signed tree',
    ],
    [
      'an upper-case path',
      { ...genuine, events: [first, { ...last, proof: last.proof.map((h) => h.toUpperCase()) }] },
      'event 1: it is not leaf 1 of the signed tree',
    ],
    ['a missing end', { ...genuine, events: [first] }, 'the last event does not end the transfer'],
    ['no events', { ...genuine, events: [] }, 'it has no event'],
    [
      'a missing start',
      { ...genuine, events: [last] },
      'event 0: it has revision 1, so events are missing',
    ],
    [
      'a missing creation',
      { ...genuine, events: [last] },
      'the first event does not create the transfer',
    ],
    [
      'an event of another transfer',
      { ...genuine, events: [first, last, other] },
      'event 2: it is of the stream transfer-txr_2',
    ],
    [
      'a repeated event',
      { ...genuine, events: [first, first, last] },
      'event 1: it is not after the event before it',
    ],
    [
      'another transfer id',
      { ...genuine, transfer_id: 'txr_2' },
      'the first event creates the transfer txr_1',
    ],
    [
      'a leaf that is no event',
      { ...genuine, events: [first, { ...last, leaf: 'null' }] },
      'event 1: its leaf is no event',
    ],
    [
      'a changed size',
      { ...genuine, checkpoint: genuine.checkpoint.replace('\n4\n', '\n5\n') },
      'the key did not sign the checkpoint',
    ],
    [
      'another name',
      { ...genuine, checkpoint: genuine.checkpoint.replaceAll(ORIGIN, 'waybill/other') },
      `the signature of the checkpoint names the key ${keyIdOf(ORIGIN, publicKey)}, and you gave ` +
        keyIdOf('waybill/other', publicKey),
    ],
    [
      'a signature under another name than the origin',
      {
        ...genuine,
        checkpoint: signNote(parseNote(genuine.checkpoint)!.text, 'waybill/other', [privateKey]),
      },
      'the key did not sign the checkpoint',
    ],
    [
      'a text for a checkpoint',
      { ...genuine, checkpoint: 'signed' },
      'the checkpoint is no signed checkpoint',
    ],
  ])('with %s is rejected', (_, receipt, problem) => {
    expect(problemsOf(receipt)).toContain(problem);
  });

  it('of another key is not verified, whatever key it brings along, and both are named', () => {
    const stranger = generateKeyPairSync('ed25519').publicKey;
    const [named, given] = [publicKey, stranger].map((key) => keyIdOf(ORIGIN, key));
    const problem = `the signature of the checkpoint names the key ${named}, and you gave ${given}`;
    expect(verifyReceipt(genuine, stranger)).toEqual({
      ok: false,
      otherKey: true,
      problems: [problem],
    });
    const cut = { ...genuine, events: [first] };
    expect(verifyReceipt(cut, stranger)).toMatchObject({ ok: false, otherKey: false });
  });

  it('is verified with several keys if one of them signed', () => {
    const stranger = generateKeyPairSync('ed25519').publicKey;
    const keyId = keyIdOf(ORIGIN, publicKey);
    expect(verifyReceipt(genuine, stranger, publicKey)).toMatchObject({ ok: true, keyId });
  });

  it('is false if the key that it names did not make the signature', () => {
    const forged = { ...genuine, checkpoint: genuine.checkpoint.replace('\n4\n', '\n5\n') };
    expect(verifyReceipt(forged, publicKey)).toMatchObject({ ok: false, otherKey: false });
  });

  it('under the name of another transfer is rejected', () => {
    const renamed = events.map((event) =>
      event.stream === 'transfer-txr_1' ? { ...event, stream: 'transfer-txr_9' } : event,
    );
    expect(problemsOf(receiptOf('txr_9', renamed))).toEqual([
      'the first event creates the transfer txr_1',
    ]);
  });
});
