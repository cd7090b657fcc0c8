import { expect, it } from 'vitest';
import { clientUrl } from '../../../src/adapters/event-store/eventstoredb/client-url.ts';

it.each([
  ['esdb://a b:2113', /no HOST or HOST:PORT: write esdb/],
  ['esdb://one:2113,', /no HOST or HOST:PORT/],
  ['esdb://:2113', /no HOST or HOST:PORT/],
  ['esdb://me:secret@one:21x3', /no HOST or HOST:PORT/],
  ['esdb://one:2113,two:0', /has a port that is no whole number/],
  ['esdb+discover://one:65536', /has a port that is no whole number/],
])('%s is rejected, because no wait brings such an address', (url, message) => {
  expect(() => clientUrl({ url })).toThrow(message);
  expect(() => clientUrl({ url })).not.toThrow(/secret/);
});

it.each([
  'esdb://127.0.0.1:2113?tls=false',
  'esdb://me:secret@node_1.example:2113,node-2:2113/?tls=true',
  'esdb+discover://cluster.example',
])('%s keeps its addresses', (url) => {
  const [address] = url.split(/\/?\?/);
  expect(clientUrl({ url }).replace('/?', '?').split('?')[0]?.replace(/\/$/, '')).toBe(address);
});
