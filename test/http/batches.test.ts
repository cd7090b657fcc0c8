import { afterAll, beforeAll, expect, it } from 'vitest';
import { changeBatch } from '../../src/commands/batches.ts';
import { changed } from '../../src/commands/remembered-streams.ts';
import { abortTransfer, cancelTransfer, startTransfer } from '../../src/commands/transfers.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

const STARTED = { claimId: 'clm_1', source: null, destination: null };

const OPTIONS = { expected_sha256: 'ab'.repeat(32), verify: 'read_back' };

describeWithPostgres('batches', () => {
  let api: TestApi;

  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api.close());

  const item = (name: string, more: object = {}) => ({
    source_uri: `sftp://files.example.com/out/${name}`,
    destination_uri: 's3://archive/in/',
    ...more,
  });
  async function untilCounted(id: string, status: string): Promise<void> {
    const counted = async () => (await api.ask('GET', `/v1/batches/${id}`)).body.counts[status];
    await expect.poll(counted, { timeout: 20_000 }).toBe(1);
  }
  const items = (count: number) => Array.from({ length: count }, (_, i) => item(`${i}.csv`));

  it('creates all transfers of the items, in order', async () => {
    const { status, body, headers } = await api.ask('POST', '/v1/batches', {
      json: {
        items: [
          item('a.csv'),
          item('b.csv', { priority: 'high', metadata: { own: '1' }, ...OPTIONS }),
          item('c.csv', { preserve_mtime: false }),
        ],
        metadata: { common: '1' },
        preserve_mtime: true,
        notify_on_complete: true,
      },
    });
    expect(status).toBe(201);
    expect(headers.get('location')).toBe(`/v1/batches/${body.id}`);
    expect(body).toMatchObject({
      status: 'open',
      folder: null,
      retry_of: null,
      preserve_mtime: true,
      counts: { items: 3, pending: 3, completed: 0, failed: 0, rejected: 0 },
      ended_at: null,
    });
    const [first, second, third] = await Promise.all(
      body.transfer_ids.map((id: string) => api.ask('GET', `/v1/transfers/${id}`)),
    );
    expect(first.body).toMatchObject({
      destination: 's3://archive/in/a.csv',
      priority: 'normal',
      metadata: { common: '1' },
      preserve_mtime: true,
      batch_id: body.id,
      status: 'pending',
    });
    expect(second.body).toMatchObject({
      destination: 's3://archive/in/b.csv',
      priority: 'high',
      metadata: { own: '1' },
      ...OPTIONS,
      preserve_mtime: true,
    });
    expect(first.body).not.toHaveProperty('expected_sha256');
    expect(third.body).not.toHaveProperty('preserve_mtime');
    const { transfer_ids, ...batch } = body;
    expect((await api.ask('GET', `/v1/batches/${body.id}`)).body).toEqual(batch);
    const listed = await api.ask('GET', `/v1/transfers?batch_id=${body.id}&sort=created_at`);
    expect(listed.body.data.map(({ id }: { id: string }) => id)).toEqual(transfer_ids);
    expect(listed.body.pagination.total).toBe(3);
  });

  it('takes 1,000 items and no more', async () => {
    const { status, body } = await api.ask('POST', '/v1/batches', {
      json: { items: items(1_000) },
    });
    expect(status).toBe(201);
    expect(new Set(body.transfer_ids).size).toBe(1_000);
    expect((await api.ask('GET', `/v1/batches/${body.id}`)).body.counts.pending).toBe(1_000);
    const more = await api.ask('POST', '/v1/batches', { json: { items: items(1_001) } });
    expect(more.body).toMatchObject({ status: 400, errors: [{ field: 'items' }] });
    const none = await api.ask('POST', '/v1/batches', { json: { items: [] } });
    expect(none.body).toMatchObject({ status: 400, errors: [{ field: 'items' }] });
  });

  it('rejects the whole request and names the first 100 errors', async () => {
    const before = await api.ask('GET', '/v1/transfers');
    const wrong = [
      item('a.csv'),
      item('b.csv', { destination_uri: 's3://other/in/' }),
      item('c.csv', { destination_uri: `s3://archive/${'x'.repeat(5_000)}` }),
    ];
    const unparsed = await api.ask('POST', '/v1/batches', { json: { items: wrong } });
    expect(unparsed.body).toMatchObject({
      code: 'validation_failed',
      errors: [{ field: 'items[2].destination_uri' }],
    });
    const unmatched = await api.ask('POST', '/v1/batches', {
      json: { items: [...wrong.slice(0, 2), item('d.csv', { destination_uri: 'sftp://no/' })] },
    });
    expect(unmatched.body).toMatchObject({
      status: 400,
      code: 'endpoint_not_configured',
      errors: [{ field: 'items[1].destination_uri' }, { field: 'items[2].destination_uri' }],
    });
    const many = Array.from({ length: 101 }, () =>
      item('b.csv', { destination_uri: 's3://other/' }),
    );
    const unnamed = await api.ask('POST', '/v1/batches', { json: { items: many } });
    expect(unnamed.body.errors).toHaveLength(100);
    expect(unnamed.body.detail).toMatch(/, and 100 more errors$/);
    const unknown = await api.ask('POST', '/v1/batches', {
      json: { items: [item('a.csv', { after: {} })] },
    });
    expect(unknown.body).toMatchObject({
      code: 'unknown_field',
      errors: [{ field: 'items[0].after' }],
    });
    const after = await api.ask('GET', '/v1/transfers');
    expect(after.body.pagination.total).toBe(before.body.pagination.total);
  });

  it('rejects items with the same destination if the sources of both would go', async () => {
    const destination_uri = 's3://archive/in/a.csv';
    const json = { items: [item('a.csv'), item('b.csv', { destination_uri })] };
    const ask = (source: string) =>
      api.ask('POST', '/v1/batches', { json: { ...json, after: { source } } });
    expect((await ask('delete')).body).toMatchObject({
      status: 400,
      code: 'validation_failed',
      errors: [{ field: 'items[1].destination_uri', message: expect.stringContaining('items[0]') }],
    });
    expect((await ask('keep')).status).toBe(201);
  });

  it('creates one batch for one Idempotency-Key', async () => {
    const request = { json: { items: items(3) }, headers: { 'idempotency-key': 'batch-1' } };
    const first = await api.ask('POST', '/v1/batches', request);
    const second = await api.ask('POST', '/v1/batches', request);
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
  });

  it('completes what an earlier request with the key began', async () => {
    const { sql, store } = api.installation;
    const request = { json: { items: items(3) }, headers: { 'idempotency-key': 'batch-2' } };
    const first = await api.ask('POST', '/v1/batches', request);
    await sql`update work.idempotency_keys set status = null, answer = null where key = 'batch-2'`;
    const events = (await store.read(streamName('batch', first.body.id))).length;
    const second = await api.ask('POST', '/v1/batches', request);
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotent-replayed')).toBeNull();
    expect((await store.read(streamName('batch', first.body.id))).length).toBe(events);
    for (const id of first.body.transfer_ids)
      expect((await store.read(streamName('transfer', id))).length).toBe(1);
  });

  it('counts each hundred items as a request', async () => {
    const server = await api.startServer({ rateLimit: 10 });
    const { key } = await api.createKey(['transfers:write']);
    const one = await server.ask('POST', '/v1/batches', { key, json: { items: items(1) } });
    expect(one.headers.get('x-ratelimit-remaining')).toBe('9');
    const many = await server.ask('POST', '/v1/batches', { key, json: { items: items(401) } });
    expect(many.headers.get('x-ratelimit-remaining')).toBe('4');
    const over = await server.ask('POST', '/v1/batches', { key, json: { items: items(500) } });
    expect(over.status).toBe(429);
    expect(over.body.code).toBe('rate_limited');
    expect(Number(over.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('shows batches of the own account only, newest first', async () => {
    const { key } = await api.createKey(['transfers:write'], { account: 'acc_own' });
    const create = async () =>
      (await api.ask('POST', '/v1/batches', { key, json: { items: items(1) } })).body.id;
    const ids = [await create(), await create()];
    const { body } = await api.ask('GET', '/v1/batches', { key });
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual(ids.reverse());
    expect(body.pagination).toMatchObject({ total: 2, has_more: false });
    const page = await api.ask('GET', '/v1/batches?status=open&limit=1&offset=1', { key });
    expect(page.body.data).toHaveLength(1);
    expect((await api.ask('GET', '/v1/batches?status=cancelled', { key })).body.data).toEqual([]);
    expect((await api.ask('GET', `/v1/batches/${ids[0]}`)).status).toBe(404);
    expect((await api.ask('GET', `/v1/batches/${ids[0]}/rejected`)).status).toBe(404);
    expect((await api.ask('GET', `/v1/batches/${ids[0]}/rejected`, { key })).body).toEqual({
      data: [],
      pagination: { total: 0, limit: 25, offset: 0, has_more: false },
    });
  });

  it('takes a folder, and says at once what is wrong with it', async () => {
    const folder = { source_uri: 's3://archive/out', destination_uri: 's3://archive/in/' };
    const { status, body } = await api.ask('POST', '/v1/batches', {
      json: { ...folder, recursive: true, exclude: ['*.tmp'] },
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      status: 'creating',
      folder: {
        source_uri: 's3://archive/out/',
        destination_uri: 's3://archive/in/',
        pattern: '*',
        recursive: true,
        exclude: ['*.tmp'],
      },
      counts: { items: 0 },
    });
    expect(body).not.toHaveProperty('transfer_ids');
    const wrong = async (json: object) =>
      (await api.ask('POST', '/v1/batches', { json })).body.errors.map(
        ({ field, code }: Record<string, string>) => `${field} ${code}`,
      );
    expect(await wrong({})).toEqual(['items validation_failed']);
    expect(await wrong({ ...folder, items: items(1) })).toEqual([
      'source_uri validation_failed',
      'destination_uri validation_failed',
    ]);
    expect(await wrong({ ...folder, destination_uri: 's3://archive/in' })).toEqual([
      'destination_uri validation_failed',
    ]);
    expect(await wrong({ ...folder, source_uri: 'sftp://other/out/' })).toEqual([
      'source_uri endpoint_not_configured',
    ]);
    expect(await wrong({ ...folder, exclude: [''] })).toEqual(['exclude[0] validation_failed']);
    const exclude = ['*.tmp', '{a', 'a\\', 'old/', '/old'];
    expect(await wrong({ ...folder, pattern: '[a', exclude })).toEqual([
      'pattern validation_failed',
      'exclude[1] validation_failed',
      'exclude[2] validation_failed',
      'exclude[3] validation_failed',
      'exclude[4] validation_failed',
    ]);
    expect(await wrong({ ...folder, destination_uri: 's3://archive/out/' })).toEqual([
      'destination_uri validation_failed',
    ]);
  });

  it('cancels what waits, and says what it could not', async () => {
    const { body } = await api.ask('POST', '/v1/batches', { json: { items: items(3) } });
    const [first] = body.transfer_ids;
    const { commands } = api.installation;
    await startTransfer(commands, first, STARTED, CAUSE);
    await untilCounted(body.id, 'in_progress');
    const cancelled = await api.ask('DELETE', `/v1/batches/${body.id}`);
    expect(cancelled.status).toBe(200);
    expect(cancelled.body).toMatchObject({
      status: 'cancelled',
      cancelled: 2,
      not_cancelled: [{ id: first, code: 'transfer_not_cancellable' }],
      has_more: false,
    });
    expect((await api.ask('GET', `/v1/batches/${body.id}`)).body).toMatchObject({
      status: 'cancelled',
      counts: { items: 3, cancelled: 2, in_progress: 1 },
      ended_at: null,
    });
    const again = await api.ask('DELETE', `/v1/batches/${body.id}`);
    expect(again.body).toMatchObject({ status: 'cancelled', cancelled: 0 });
    expect((await api.ask('DELETE', '/v1/batches/bat_unknown')).status).toBe(404);
  });

  /** Cancels a batch of three items at a server with these changes of its commands. */
  async function cancelAt(changes: (id: string) => Partial<TestApi['installation']['commands']>) {
    const { body } = await api.ask('POST', '/v1/batches', { json: { items: items(3) } });
    const commands = { ...api.installation.commands, ...changes(body.transfer_ids[0]) };
    const server = await api.startServer({ commands });
    return (await server.ask('DELETE', `/v1/batches/${body.id}`)).body;
  }

  it('counts what the process manager cancels at the same time', async () => {
    const { commands } = api.installation;
    const cancelled = await cancelAt((id) => ({
      store: changed(commands.store, {
        async append(stream, ...more) {
          const appended = await commands.store.append(stream, ...more);
          if (!stream.startsWith('batch-')) return appended;
          await cancelTransfer(commands, id, CAUSE);
          expect(await commands.catchUp('transfers')).toBe(true);
          return appended;
        },
      }),
    }));
    expect(cancelled).toMatchObject({ cancelled: 3, not_cancelled: [], has_more: false });
  });

  it('says that more may be left if the read model is behind', async () => {
    const cancelled = await cancelAt(() => ({ catchUp: async () => false }));
    expect(cancelled).toMatchObject({ cancelled: 3, has_more: true });
  });

  it.each([
    ['whose transfers were cancelled', 'completed_with_failures'],
    ['that was cancelled itself', 'cancelled'],
  ])('does not cancel a batch that has ended, %s', async (_how, status) => {
    const { body } = await api.ask('POST', '/v1/batches', { json: { items: items(1) } });
    const { commands } = api.installation;
    if (status === 'cancelled') await api.ask('DELETE', `/v1/batches/${body.id}`);
    else await cancelTransfer(commands, body.transfer_ids[0], CAUSE);
    const ended = { completed: 0, failed: 0, cancelled: 1 };
    const complete = { type: 'complete', ended, bytes: 0, now: new Date().toISOString() } as const;
    await changeBatch(commands, body.id, complete, CAUSE);
    expect((await api.ask('DELETE', `/v1/batches/${body.id}`)).body).toMatchObject({
      status: 409,
      code: 'batch_not_cancellable',
      current_status: status,
    });
  });

  it('retries the failed transfers in a new batch', async () => {
    const { body } = await api.ask('POST', '/v1/batches', {
      json: { items: items(2), metadata: { order: '4711' }, priority: 'high' },
    });
    const retry = (key: string) =>
      api.ask('POST', `/v1/batches/${body.id}/retry`, { headers: { 'idempotency-key': key } });
    expect((await retry('too-early')).body).toMatchObject({
      status: 409,
      code: 'batch_not_retryable',
    });
    const { commands } = api.installation;
    const [first] = body.transfer_ids;
    await startTransfer(commands, first, STARTED, CAUSE);
    await abortTransfer(commands, first, CAUSE);
    await untilCounted(body.id, 'failed');
    const both = await Promise.all(['again', 'at-once'].map(retry));
    const [created] = both.filter(({ status }) => status === 201) as [(typeof both)[number]];
    const [refused] = both.filter((answer) => answer !== created);
    for (const { body: problem } of [refused!, await retry('too-soon')]) {
      expect(problem).toMatchObject({ status: 409, code: 'batch_not_retryable' });
      expect(problem.detail).toContain(created.body.id);
    }
    expect(created.body).toMatchObject({
      status: 'creating',
      retry_of: body.id,
      folder: null,
      priority: 'high',
      metadata: { order: '4711' },
    });
    const key = created === both[0] ? 'again' : 'at-once';
    expect((await retry(key)).body).toEqual(created.body);
    expect((await api.ask('POST', '/v1/batches/bat_unknown/retry')).status).toBe(404);
  });

  it('takes a body of 512 KiB and no larger one', async () => {
    const metadata = { note: 'x'.repeat(256) };
    const many = items(900).map((one) => ({ ...one, metadata }));
    expect((await api.ask('POST', '/v1/batches', { json: { items: many } })).status).toBe(201);
    const large = many.map((one) => ({ ...one, metadata: { ...metadata, more: 'x'.repeat(250) } }));
    expect((await api.ask('POST', '/v1/batches', { json: { items: large } })).status).toBe(413);
  });
});
