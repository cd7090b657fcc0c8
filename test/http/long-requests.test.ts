import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { LONGER, nameOf } from '../../src/http/requests/time-limit.ts';
import { beforeCalls } from '../support/event-store/before-calls.ts';
import { type Server, startApi, type TestApi } from '../support/http/api.ts';
import { follow } from '../support/http/server-events.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { LONG } from '../support/run/long.ts';
import { until } from '../support/service/transfers.ts';

/** The limit of these tests. What they wait for takes longer. */
const WITHIN_MS = 2_000;
const LONG_MS = 2 * WITHIN_MS;
const TRANSFER = { source_uri: 's3://archive/a', destination_uri: 's3://archive/b' };

interface Described {
  description?: string;
  responses: Record<string, { content?: Record<string, unknown> }>;
  parameters?: { name: string; in: string }[];
}

describeWithPostgres('what takes longer than a request may wait for the stores', () => {
  let api: TestApi;
  /** A server whose limit is short. */
  let server: Server;
  /** The same, whose appends take long. To load its routes would delay the requests of a test. */
  let slowServer: Server;
  let admin: string;
  beforeAll(async () => {
    api = await startApi();
    server = await api.startServer({ answerWithinMs: WITHIN_MS });
    const { commands } = api.installation;
    slowServer = await api.startServer({
      commands: { ...commands, store: slowed(commands.store) },
      answerWithinMs: WITHIN_MS,
    });
    admin = (await api.createKey(['admin'])).key;
  });
  afterAll(() => api?.close());

  const createTransfer = async (): Promise<string> => {
    const { status, body } = await api.ask('POST', '/v1/transfers', { json: TRANSFER });
    expect(status).toBe(201);
    return body.id;
  };

  test('each route that may take longer exists', () => {
    for (const name of Object.keys(LONGER)) {
      const [method, url] = name.split(' ') as ['GET', string];
      expect([name, server.app.hasRoute({ method, url })]).toEqual([name, true]);
    }
  });

  test('an operation that waits for others, or as its client asks, may take longer', async () => {
    const { body } = await api.ask('GET', '/v1/openapi.json');
    const found: string[] = [];
    for (const [path, methods] of Object.entries<Record<string, Described>>(body.paths)) {
      for (const [method, { description = '', ...operation }] of Object.entries(methods)) {
        const waits = (operation.parameters ?? []).some(({ name }) => name === 'wait');
        if (!waits && !('502' in operation.responses) && !description.includes('text/csv'))
          continue;
        const url = `/v1${path.replace(/^\/v1/, '')}`.replace(/\{(\w+)\}/g, ':$1');
        // Its lines begin before it waits for a server.
        if ('application/x-ndjson' in (operation.responses['200']?.content ?? {})) continue;
        found.push(nameOf({ method: method.toUpperCase(), url }));
      }
    }
    expect(found).toContain('GET /v1/transfers/:transfer_id/receipt');
    expect(Object.keys(LONGER)).toEqual(expect.arrayContaining(found));
  });

  describe('is not cut', () => {
    let stream: Awaited<ReturnType<typeof follow<unknown>>>;
    beforeAll(async () => {
      // The first event has the limit too. On a busy machine, the first stream of a process takes as
      // long: the server with the usual limit sends that one.
      for (const { url } of [api, server]) {
        stream?.leave();
        stream = await follow(`${url}/v1/transfers/live`, admin);
        await until('it began', () => stream.events.length > 0);
      }
    });
    afterAll(() => stream?.leave());

    test.concurrent('a receipt that its client waits for', async () => {
      const id = await createTransfer();
      const wait = LONG_MS / 1_000;
      const answer = await server.ask('GET', `/v1/transfers/${id}/receipt?wait=${wait}`);
      expect([answer.status, answer.body.code]).toEqual([409, 'receipt_not_ready']);
    });

    test.concurrent('a bulk change whose appends come one after the other', async () => {
      // More than are changed at a time.
      const ids = await Promise.all(Array.from({ length: 40 }, createTransfer));
      const json = { action: 'cancel', ids };
      const answer = await slowServer.ask('POST', '/v1/transfers/bulk', { json });
      expect([answer.status, answer.body.done]).toEqual([200, ids.length]);
    });

    test.concurrent('a folder of a server that takes its time', { ...LONG }, async () => {
      const partner = createServer((socket) => {
        socket.on('error', () => {});
        setTimeout(() => socket.destroy(), LONG_MS);
      });
      onTestFinished(() => void partner.close());
      await once(partner.listen(0, '127.0.0.1'), 'listening');
      const { port } = partner.address() as { port: number };
      const { body } = await api.ask('POST', '/v1/endpoints', {
        key: admin,
        json: {
          ...{ name: 'slow', protocol: 'sftp', host: '127.0.0.1', port },
          ...{ username: 'me', password: 'secret', host_key_sha256: `SHA256:${'a'.repeat(43)}` },
        },
      });
      for (const [method, path, json] of [
        ['GET', 'files?path=/', undefined],
        ['POST', 'accept-host-key', { host_key_sha256: `SHA256:${'b'.repeat(43)}` }],
      ] as const) {
        const answer = await server.ask(method, `/v1/endpoints/${body.id}/${path}`, {
          key: admin,
          ...(json && { json }),
        });
        expect([path, answer.status, answer.body.code]).toEqual([path, 502, 'endpoint_failed']);
      }
    });

    test.concurrent('an event stream', async () => {
      await sleep(LONG_MS);
      const before = stream.events.length;
      await createTransfer();
      await until('it goes on', () => stream.events.length > before);
    });
  });

  test('is not cut: an export whose first lines come late', async () => {
    const { sql } = api.installation;
    const locked = Promise.withResolvers<void>();
    const locking = sql.begin(async (transaction) => {
      await transaction`lock table read.transfers in access exclusive mode`;
      locked.resolve();
      await sleep(LONG_MS);
    });
    await locked.promise;
    const answer = await server.ask('GET', '/v1/transfers', { headers: { accept: 'text/csv' } });
    await locking;
    expect([answer.status, answer.headers.get('content-type')]).toEqual([
      200,
      'text/csv; charset=utf-8',
    ]);
  });
});

/** The store, with appends that take a part of the limit. */
function slowed(store: EventStore): EventStore {
  return beforeCalls(store, async (call) => {
    if (call === 'append') await sleep(WITHIN_MS / 2);
  });
}
