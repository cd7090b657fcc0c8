import { expect, test } from 'vitest';
import { parseStream, streamName, streamPrefix } from '../../../src/domain/events/streams.ts';

test.each([
  ['transfer-txr_01', 'transfer', 'txr_01'],
  ['endpoint-end_01', 'endpoint', 'end_01'],
  ['endpoint_name-cold-archive', 'endpoint_name', 'cold-archive'],
  ['key-key_01', 'key', 'key_01'],
  ['webhook-whk_01', 'webhook', 'whk_01'],
] as const)('%s is the stream of %s %s', (name, kind, id) => {
  expect(streamName(kind, id)).toBe(name);
  expect(parseStream(name)).toEqual({ kind, id });
  expect(name.startsWith(streamPrefix(kind))).toBe(true);
});

test.each(['log', 'transfers-txr_01', 'invoice-1', ''])('%j belongs to no aggregate', (name) => {
  expect(parseStream(name).kind).toBeUndefined();
});

test('no prefix is the start of another', () => {
  expect(streamName('endpoint_name', 'a').startsWith(streamPrefix('endpoint'))).toBe(false);
});
