import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { admitTransfer, endAttempt, startTransfer } from '../../src/commands/transfers.ts';
import { history } from '../../src/contract/events.ts';
import * as schemas from '../../src/contract/transfers/answers.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import type { AttemptFailure } from '../../src/domain/transfers/errors.ts';
import { dispatchConsumer } from '../../src/processes/dispatch/consumer.ts';
import { VERIFICATION } from '../support/domain/samples.ts';
import { type Ask, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE, configureEndpoint } from '../support/service/installation.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/report%20Q1.csv',
  destination_uri: 's3://archive/in/',
};
const UNKNOWN = '/v1/transfers/txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describeWithPostgres('transfers over HTTP', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
    // The same bucket as that of `archive`, by another account.
    const account = { access_key_id: 'another', secret_access_key: 'secret' };
    const same = { name: 'same', protocol: 's3', bucket: 'archive', prefix: 'in/' };
    await configureEndpoint(api.installation, { ...same, ...account });
  });
  afterAll(() => api?.close());

  async function create(changes: Record<string, unknown> = {}): Promise<string> {
    const { status, body } = await api.ask('POST', '/v1/transfers', {
      json: { ...BODY, ...changes },
    });
    expect(status).toBe(201);
    return body.id;
  }

  /** Appends a mover's event, and waits until the API shows it. */
  async function move(
    id: string,
    ...steps: ((id: string) => Promise<{ position: bigint | null }>)[]
  ): Promise<void> {
    for (const step of steps)
      await api.installation.commands.waitFor('transfers', (await step(id)).position);
  }
  const admit = (id: string) => admitTransfer(api.installation, id, CAUSE);
  const start = (id: string) =>
    startTransfer(
      api.installation,
      id,
      { claimId: `clm_${id}`, source: null, destination: null },
      CAUSE,
    );
  const complete = (id: string) =>
    endAttempt(
      api.installation,
      id,
      `clm_${id}`,
      {
        type: 'completed',
        sizeBytes: 2048,
        speedBps: 8000,
        checksumSha256: 'ab'.repeat(32),
        verification: VERIFICATION,
      },
      CAUSE,
    );
  const fail = (failure: AttemptFailure, retryDelays: number[]) => (id: string) =>
    endAttempt(
      api.installation,
      id,
      `clm_${id}`,
      {
        type: 'failed',
        failure,
        figures: { transferred_bytes: 512, size_bytes: 2048, speed_bps: 4000 },
        retryDelays,
      },
      CAUSE,
    );

  describe('POST /v1/transfers', () => {
    test('answers with the created transfer', async () => {
      const { status, headers, body } = await api.ask('POST', '/v1/transfers', {
        json: { ...BODY, priority: 'high', notify_on_complete: true, metadata: { order: '4711' } },
      });
      expect(status).toBe(201);
      expect(body).toEqual({
        id: expect.stringMatching(/^txr_[0-9A-Z]{26}$/),
        status: 'pending',
        source_uri: BODY.source_uri,
        destination_uri: BODY.destination_uri,
        priority: 'high',
        created_at: expect.stringMatching(INSTANT),
        estimated_start: expect.stringMatching(INSTANT),
      });
      expect(headers.get('location')).toBe(`/v1/transfers/${body.id}`);
      expect(headers.get('idempotent-replayed')).toBeNull();
    });

    test('shows the transfer in the next request, to any process', async () => {
      const other = await api.startServer();
      for (let i = 0; i < 5; i++) {
        const id = await create();
        expect(await other.ask('GET', `/v1/transfers/${id}`)).toMatchObject({
          status: 200,
          body: { id },
        });
        expect((await other.ask('GET', '/v1/transfers?limit=1')).body.data[0].id).toBe(id);
      }
    });

    test.each<[string, unknown, string[]]>([
      ['nothing that is required', {}, ['source_uri', 'destination_uri']],
      [
        'values of wrong types',
        { source_uri: 1, destination_uri: null, notify_on_complete: 'yes', metadata: [] },
        ['source_uri', 'destination_uri', 'notify_on_complete', 'metadata'],
      ],
      ['an unknown priority', { ...BODY, priority: 'urgent' }, ['priority']],
      [
        'an unknown protocol',
        { ...BODY, source_uri: 'http://files.example.com/x' },
        ['source_uri'],
      ],
      [
        'a source without a file',
        { ...BODY, source_uri: 'sftp://files.example.com/out/' },
        ['source_uri'],
      ],
      [
        'a way out of the base path',
        { ...BODY, destination_uri: 's3://archive/in/%2e%2e/x' },
        ['destination_uri'],
      ],
      [
        'the source as destination',
        { source_uri: 's3://archive/a', destination_uri: 's3://archive/a' },
        ['destination_uri'],
      ],
      [
        'the source as destination, by another endpoint, if it is removed afterwards',
        {
          source_uri: 's3://archive/in/a',
          destination_uri: 's3://same/a',
          after: { source: 'delete' },
        },
        ['destination_uri'],
      ],
      [
        'eleven keys of metadata',
        {
          ...BODY,
          metadata: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`k${i}`, 'v'])),
        },
        ['metadata'],
      ],
      ['a value of 257 characters', { ...BODY, metadata: { a: 'x'.repeat(257) } }, ['metadata.a']],
      [
        'a value that is no text',
        { ...BODY, metadata: { a: 1, b: null } },
        ['metadata.a', 'metadata.b'],
      ],
      ['half a SHA-256', { ...BODY, expected_sha256: 'ab'.repeat(16) }, ['expected_sha256']],
      ['an unknown verification', { ...BODY, verify: 'twice' }, ['verify']],
      ['an unknown step', { ...BODY, after: { source: 'burn' } }, ['after.source']],
      [
        'a folder above that of the source',
        { ...BODY, after: { source: { move_to: '../x/' } } },
        ['after.source.move_to'],
      ],
      [
        'a folder of the server',
        { ...BODY, after: { source: { move_to: '/x/' } } },
        ['after.source.move_to'],
      ],
      [
        'a marker in another folder',
        { ...BODY, after: { destination_marker: 'done/.x' } },
        ['after.destination_marker'],
      ],
      [
        'steps that are wrong at both ends',
        { ...BODY, after: { source: { move_to: 'a/../b' }, destination_marker: '' } },
        ['after.source.move_to', 'after.destination_marker'],
      ],
      ['a NUL', { ...BODY, metadata: { a: 'x\0' } }, ['metadata.a']],
      ['half of a surrogate pair', { ...BODY, metadata: { a: '\ud800' } }, ['metadata.a']],
    ])('rejects %s', async (_what, json, fields) => {
      const { status, body } = await api.ask('POST', '/v1/transfers', { json });
      expect({ status, code: body.code }).toEqual({ status: 400, code: 'validation_failed' });
      expect(body.errors.map(({ field }: { field: string }) => field)).toEqual(fields);
      expect(body.detail.split('; ').map((wrong: string) => wrong.split(': ')[0])).toEqual(fields);
    });

    test('names every unknown field', async () => {
      const { status, body } = await api.ask('POST', '/v1/transfers', {
        json: { ...BODY, prio: 'high', constructor: 1 },
      });
      expect({ status, code: body.code }).toEqual({ status: 400, code: 'unknown_field' });
      expect(body.errors.map(({ field }: { field: string }) => field)).toEqual([
        'prio',
        'constructor',
      ]);
      expect(await api.ask('POST', '/v1/transfers?dry_run=true', { json: BODY })).toMatchObject({
        status: 400,
        body: { code: 'unknown_field' },
      });
    });

    test.each([
      [{ move_to: 'x/', foo: 1 }, 'foo', 'unknown_field', 'is not a known field'],
      [{}, 'move_to', 'validation_failed', 'is required'],
      [{ move_to: 1 }, 'move_to', 'validation_failed', 'must be a string'],
    ])('says what is wrong with the step %j', async (source, name, code, message) => {
      const json = { ...BODY, after: { source } };
      const { status, body } = await api.ask('POST', '/v1/transfers', { json });
      expect({ status, code: body.code }).toEqual({ status: 400, code });
      expect(body.errors).toEqual([{ field: `after.source.${name}`, code, message }]);
    });

    test('accepts the maximum of metadata, and keys with a meaning elsewhere', async () => {
      const metadata = Object.fromEntries(
        Array.from({ length: 10 }, (_, i) => [`toString${i || ''}`, 'ü'.repeat(256)]),
      );
      const id = await create({ metadata });
      expect((await api.ask('GET', `/v1/transfers/${id}`)).body.metadata).toEqual(metadata);
    });

    test('rejects a password in a URI, and does not repeat it', async () => {
      const answer = await api.ask('POST', '/v1/transfers', {
        json: { ...BODY, source_uri: 'sftp://bob:hunter2@files.example.com/x' },
      });
      expect(answer).toMatchObject({
        status: 400,
        body: {
          code: 'credentials_in_uri',
          errors: [{ field: 'source_uri', code: 'credentials_in_uri' }],
        },
      });
      expect(JSON.stringify(answer.body) + api.logged.join('')).not.toContain('hunter2');
    });

    test('rejects a destination that is not configured', async () => {
      const answer = await api.ask('POST', '/v1/transfers', {
        json: { ...BODY, destination_uri: 's3://elsewhere/in/' },
      });
      expect(answer).toMatchObject({
        status: 400,
        body: { code: 'endpoint_not_configured', errors: [{ field: 'destination_uri' }] },
      });
    });

    test('rejects more open transfers than the account may have', async () => {
      const server = await api.startServer({
        commands: { ...api.installation.commands, maxOpenTransfers: 0 },
      });
      expect(await server.ask('POST', '/v1/transfers', { json: BODY })).toMatchObject({
        status: 409,
        body: { code: 'limit_reached' },
      });
    });

    test('counts the transfers that were created while a body arrived', async () => {
      const { createKey, installation } = api;
      const { key } = await createKey(['transfers:write'], { account: 'acc_slow' });
      const server = await api.startServer({
        commands: { ...installation.commands, maxOpenTransfers: 1 },
      });
      const request = JSON.stringify(BODY);
      async function* slowly() {
        yield Buffer.from(request.slice(0, 5));
        expect((await server.ask('POST', '/v1/transfers', { key, json: BODY })).status).toBe(201);
        // Longer than the queue holds that was read with the key.
        await sleep(300);
        yield Buffer.from(request.slice(5));
      }
      const answer = await server.ask('POST', '/v1/transfers', {
        key,
        headers: { 'content-type': 'application/json' },
        body: ReadableStream.from(slowly()),
        duplex: 'half',
      } as Ask);
      expect(answer).toMatchObject({ status: 409, body: { code: 'limit_reached' } });
    });
  });

  describe('GET /v1/transfers/{id}', () => {
    test('has every field from the start', async () => {
      const id = await create({ metadata: { order: '4711' } });
      expect((await api.ask('GET', `/v1/transfers/${id}`)).body).toEqual({
        id,
        file_name: 'report Q1.csv',
        size_bytes: null,
        transferred_bytes: 0,
        progress_pct: 0,
        status: 'pending',
        speed_bps: null,
        source: BODY.source_uri,
        destination: 's3://archive/in/report%20Q1.csv',
        checksum_sha256: null,
        created_at: expect.stringMatching(INSTANT),
        completed_at: null,
        ended_at: null,
        retry_count: 0,
        error: null,
        priority: 'normal',
        metadata: { order: '4711' },
        batch_id: null,
        retry_of: null,
        waiting_for: {
          reason: 'no_mover',
          message: 'No mover is running.',
          until: null,
          endpoint_id: null,
          in_use: null,
          limit: null,
        },
      });
    });

    test('shows the options that were asked for', async () => {
      const options = {
        expected_sha256: 'ab'.repeat(32),
        verify: 'read_back',
        preserve_mtime: true,
      };
      const id = await create({ ...options, expected_sha256: 'AB'.repeat(32) });
      expect((await api.ask('GET', `/v1/transfers/${id}`)).body).toMatchObject(options);
    });

    test('shows the progress of a transfer, and never 100 percent before its end', async () => {
      const id = await create();
      await move(id, admit, start);
      const { sql, store } = api.installation;
      const events = await store.read(streamName('transfer', id));
      await sql.begin((tx) => dispatchConsumer.apply(tx, events));
      await sql`
        update work.transfer_jobs set size_bytes = 3000, transferred_bytes = 1000, speed_bps = 8000
         where transfer_id = ${id}`;
      const detail = async () => (await api.ask('GET', `/v1/transfers/${id}`)).body;
      expect(await detail()).toMatchObject({
        status: 'in_progress',
        size_bytes: 3000,
        transferred_bytes: 1000,
        progress_pct: 33.33,
        speed_bps: 8000,
        completed_at: null,
      });
      await sql`update work.transfer_jobs set transferred_bytes = 3000 where transfer_id = ${id}`;
      expect(await detail()).toMatchObject({
        transferred_bytes: 3000,
        progress_pct: 99.99,
        checksum_sha256: null,
      });
    });

    test('shows a completed transfer', async () => {
      const id = await create();
      await move(id, admit, start, complete);
      const { body } = await api.ask('GET', `/v1/transfers/${id}`);
      expect(body).toMatchObject({
        status: 'completed',
        size_bytes: 2048,
        transferred_bytes: 2048,
        progress_pct: 100,
        speed_bps: 8000,
        checksum_sha256: 'ab'.repeat(32),
        error: null,
      });
      expect(body.completed_at).toMatch(INSTANT);
      expect(body.ended_at).toBe(body.completed_at);
      expect(schemas.transferDetail.parse(body)).toEqual(body);
    });

    test('says why the last attempt ended, also before the next one starts', async () => {
      const id = await create();
      await move(
        id,
        admit,
        start,
        fail({ code: 'connection_failed', message: 'refused', phase: 'source_connect' }, [60_000]),
      );
      const waiting = await api.ask('GET', `/v1/transfers/${id}`);
      expect(waiting.body).toMatchObject({
        status: 'queued',
        retry_count: 1,
        progress_pct: 25,
        ended_at: null,
        error: { code: 'connection_failed', retryable: true, attempts: 1 },
      });
      await move(
        id,
        start,
        fail(
          { code: 'auth_failed', message: 'Authentication failed', phase: 'source_sign_in' },
          [60_000],
        ),
      );
      const { body } = await api.ask('GET', `/v1/transfers/${id}`);
      expect(body).toMatchObject({ status: 'failed', retry_count: 1, completed_at: null });
      expect(body.ended_at).toBe(body.error.occurred_at);
      expect(body.error).toEqual({
        code: 'auth_failed',
        message: 'Authentication failed',
        retryable: false,
        phase: 'source_sign_in',
        attempts: 2,
        occurred_at: expect.stringMatching(INSTANT),
        advice: expect.any(String),
      });
      expect(schemas.transferDetail.parse(body)).toEqual(body);
    });

    test.each([
      'nonsense',
      'txr_',
      'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7',
      'txr_01jz8q6w3n5v4t2r1p0m9k8j7h',
      'evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H',
      '%00',
      "'",
    ])('does not find %s', async (id) => {
      for (const [method, path] of [
        ['GET', ''],
        ['DELETE', ''],
        ['GET', '/events'],
        ['GET', '?as_of=0'],
      ] as const) {
        expect(await api.ask(method, `/v1/transfers/${id}${path}`)).toMatchObject({
          status: 404,
          body: { code: 'not_found' },
        });
      }
    });

    test('shows a transfer that the read model lacks, to its account only', async () => {
      const id = await create();
      await api.installation.sql`delete from read.transfers where transfer_id = ${id}`;
      expect(await api.ask('GET', `/v1/transfers/${id}`)).toMatchObject({
        status: 200,
        body: { id, status: 'pending' },
      });
      const { key } = await api.createKey(['transfers:read'], { account: 'acc_other' });
      expect(await api.ask('GET', `/v1/transfers/${id}`, { key })).toMatchObject({ status: 404 });
      expect(await api.ask('GET', UNKNOWN)).toMatchObject({ status: 404 });
    });

    test('accepts no other parameter', async () => {
      expect(await api.ask('GET', `${UNKNOWN}?expand=all`)).toMatchObject({
        status: 400,
        body: { code: 'unknown_field', errors: [{ field: 'expand' }] },
      });
    });
  });

  describe('DELETE /v1/transfers/{id}', () => {
    test.each([
      ['pending', []],
      ['queued', ['admit']],
    ] as const)('cancels a %s transfer', async (_status, steps) => {
      const id = await create();
      if (steps.length > 0) await move(id, admit);
      const { status, body } = await api.ask('DELETE', `/v1/transfers/${id}`);
      expect(status).toBe(200);
      expect(body).toEqual({
        id,
        status: 'cancelled',
        cancelled_at: expect.stringMatching(INSTANT),
      });
      expect((await api.ask('GET', `/v1/transfers/${id}`)).body).toMatchObject({
        status: 'cancelled',
        completed_at: null,
        ended_at: body.cancelled_at,
        error: null,
      });
    });

    test.each([
      ['in_progress', () => [admit, start]],
      ['completed', () => [admit, start, complete]],
      [
        'failed',
        () => [
          admit,
          start,
          fail(
            { code: 'auth_failed', message: 'Authentication failed', phase: 'source_sign_in' },
            [],
          ),
        ],
      ],
      [
        'cancelled',
        () => [
          async (id: string) =>
            (await api.ask('DELETE', `/v1/transfers/${id}`)) && { position: null },
        ],
      ],
    ] as const)('does not cancel a transfer that is %s', async (current_status, steps) => {
      const id = await create();
      await move(id, ...steps());
      expect(await api.ask('DELETE', `/v1/transfers/${id}`)).toMatchObject({
        status: 409,
        body: { code: 'transfer_not_cancellable', transfer_id: id, current_status },
      });
      expect((await api.ask('GET', `/v1/transfers/${id}`)).body.status).toBe(current_status);
    });

    test('accepts one of many concurrent cancels', async () => {
      const id = await create();
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => api.ask('DELETE', `/v1/transfers/${id}`)),
      );
      expect(answers.map(({ status }) => status).sort()).toEqual([
        200, 409, 409, 409, 409, 409, 409, 409,
      ]);
    });
  });

  describe('GET /v1/transfers/{id}/events', () => {
    test('returns every event, in order', async () => {
      const id = await create();
      await move(id, admit, start, complete);
      const { status, body } = await api.ask('GET', `/v1/transfers/${id}/events`);
      expect(status).toBe(200);
      expect(history.parse(body)).toEqual(body);
      const { data } = body;
      expect(data.map(({ type }: { type: string }) => type)).toEqual([
        'transfer.created',
        'transfer.queued',
        'transfer.in_progress',
        'transfer.completed',
      ]);
      expect(data.map(({ revision }: { revision: number }) => revision)).toEqual([0, 1, 2, 3]);
      expect(data[0]).toEqual({
        id: expect.stringMatching(/^evt_/),
        type: 'transfer.created',
        stream: `transfer-${id}`,
        revision: 0,
        position: expect.stringMatching(/^\d+$/),
        occurred_at: expect.stringMatching(INSTANT),
        actor: expect.stringMatching(/^key:key_/),
        schema_version: 2,
        data: expect.objectContaining({ transfer_id: id, source: BODY.source_uri }),
        metadata: expect.objectContaining({ account_id: 'acc_default', prev_hash: null }),
      });
      const ids = data.map(({ id }: { id: string }) => id);
      expect([...ids].sort()).toEqual(ids);
      expect(new Set(ids).size).toBe(4);
    });
  });

  describe('GET /v1/transfers/{id}?as_of=', () => {
    test('shows the state at a revision or a time, as it was shown then', async () => {
      const id = await create();
      const shown = (await api.ask('GET', `/v1/transfers/${id}`)).body;
      const then = { ...shown, waiting_for: null };
      await sleep(2);
      const time = new Date().toISOString();
      await sleep(2);
      await move(id, admit, start, complete);
      const now = (await api.ask('GET', `/v1/transfers/${id}`)).body;

      const asOf = async (text: string) =>
        (await api.ask('GET', `/v1/transfers/${id}?as_of=${encodeURIComponent(text)}`)).body;
      expect(await asOf('0')).toEqual(then);
      expect(await asOf(time)).toEqual(then);
      expect(await asOf(time.replace('Z', '+00:00'))).toEqual(then);
      expect(await asOf('1')).toMatchObject({ status: 'queued' });
      expect(await asOf('2')).toMatchObject({ status: 'in_progress' });
      expect(await asOf('3')).toEqual(now);
      expect(await asOf('9999-12-31T23:59:59Z')).toEqual(now);
    });

    test('rejects a revision that the transfer has not reached', async () => {
      const id = await create();
      await move(id, admit);
      expect(await api.ask('GET', `/v1/transfers/${id}?as_of=2`)).toMatchObject({
        status: 400,
        body: {
          code: 'invalid_parameter',
          errors: [{ field: 'as_of', message: expect.stringMatching(/from 0 to 1/) }],
        },
      });
    });

    test('does not find a transfer before its creation', async () => {
      const id = await create();
      expect(await api.ask('GET', `/v1/transfers/${id}?as_of=2000-01-01T00:00:00Z`)).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
    });

    test.each([
      '',
      '-1',
      '1.5',
      '01',
      'yesterday',
      '2026-01-31',
      '2026-01-31T00:00:00',
      '2026-02-30T00:00:00Z',
      '0&as_of=1',
    ])('rejects %j', async (text) => {
      expect(await api.ask('GET', `${UNKNOWN}?as_of=${text}`)).toMatchObject({
        status: 400,
        body: { code: 'invalid_parameter', errors: [{ field: 'as_of' }] },
      });
    });
  });
});
