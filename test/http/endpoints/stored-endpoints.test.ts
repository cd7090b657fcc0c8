import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { endpointDecider } from '../../../src/domain/endpoints/decider.ts';
import {
  type EndpointEvent,
  type EndpointState,
  hostOf,
} from '../../../src/domain/endpoints/endpoint.ts';
import type { NewEvent } from '../../../src/domain/events/event.ts';
import { matchEndpoint, parseTransferUri } from '../../../src/domain/uri.ts';
import { startApi, type TestApi } from '../../support/http/api.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';

interface Recorded {
  name: string;
  stream: string;
  /** The host that is dialled; null for a removed endpoint. */
  host: string | null;
  /** What the API showed; null for a removed endpoint. */
  answer: Record<string, unknown> | null;
  events: NewEvent[];
}

/**
 * Event streams that version 0.1 recorded, with its results. Never record them again: logs contain
 * such events, some with settings that requests may no longer have (`odd-...`).
 */
const RECORDED = JSON.parse(
  readFileSync(new URL('stored-endpoints.json', import.meta.url), 'utf8'),
) as {
  endpoints: Recorded[];
  matches: Record<string, { endpoint: string; path: string } | null>;
};

/** What a later version also shows: all host keys where version 0.1 knew one, and later fields. */
function addedTo({ protocol, host_key_sha256: sha256 }: Record<string, unknown>) {
  const since = { bandwidth: null, bandwidth_now: null };
  if (protocol === 'ftps') return since;
  if (protocol !== 'sftp') return { ...since, via: null };
  const host_keys = sha256 === null ? [] : [{ sha256, expires_at: null }];
  return { ...since, host_keys, announced_host_keys: [], via: null };
}

function stateOf({ events }: Recorded): EndpointState {
  return events.reduce(endpointDecider.evolve, endpointDecider.initialState());
}

test.each(Object.entries(RECORDED.matches))(
  '%s matches the same endpoint as in the recording',
  (uri, wanted) => {
    const all = RECORDED.endpoints.map(stateOf).filter((state) => state.status === 'configured');
    const match = matchEndpoint(parseTransferUri(uri, 'uri'), all, 'acc_default');
    expect(match && { endpoint: match.endpoint.name, path: match.path }).toEqual(wanted);
  },
);

test.each(RECORDED.endpoints)('$name dials the same host as in the recording', (recorded) => {
  const state = stateOf(recorded);
  const host = state.status === 'configured' ? hostOf(state.settings) : null;
  expect(host).toBe(recorded.host);
});

test('the recording includes every kind of event of that version', () => {
  const types = new Set(RECORDED.endpoints.flatMap(({ events }) => events.map(({ type }) => type)));
  const all: Record<Exclude<EndpointEvent['type'], 'endpoint.host_key_announced'>, true> = {
    'endpoint.configured': true,
    'endpoint.updated': true,
    'endpoint.credentials_replaced': true,
    'endpoint.paused': true,
    'endpoint.resumed': true,
    'endpoint.removed': true,
    'endpoint.connectivity_lost': true,
    'endpoint.connectivity_restored': true,
  };
  expect([...types].sort()).toEqual(Object.keys(all).sort());
});

describeWithPostgres('endpoints of an older log', () => {
  let api: TestApi;
  let key: string;
  beforeAll(async () => {
    api = await startApi();
    key = (await api.createKey(['admin'])).key;
    const { store, commands } = api.installation;
    for (const { stream, events } of RECORDED.endpoints) {
      const { position } = await store.append(stream, 'no_stream', events);
      expect(await commands.waitFor('catalog', position)).toBe(true);
    }
  });
  afterAll(() => api?.close());

  test('are shown as they were', async () => {
    const { status, body } = await api.ask('GET', '/v1/endpoints', { key });
    expect(status).toBe(200);
    const shown = body.data.filter(({ name }: { name: string }) => name !== 'archive');
    const wanted = RECORDED.endpoints.flatMap(({ answer }) =>
      answer ? [{ ...answer, ...addedTo(answer) }] : [],
    );
    expect(shown).toEqual(wanted);
  });
});
