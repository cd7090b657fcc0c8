import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { cancelTransfers } from '../../src/commands/bulk.ts';
import { endAttempt, type Outcome, startTransfer } from '../../src/commands/transfers.ts';
import * as schemas from '../../src/contract/transfers/answers.ts';
import { BULK_LIMIT, bulkAnswer } from '../../src/contract/transfers/bulk.ts';
import { newId } from '../../src/domain/ids.ts';
import { findChangeable } from '../../src/projections/transfers/changeable.ts';
import { FIGURES, VERIFICATION } from '../support/domain/samples.ts';
import { describeOnEventStoreDb } from '../support/event-store/eventstoredb.ts';
import { type Answer, type Server, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
  priority: 'low',
  metadata: { order: '4711' },
  notify_on_complete: true,
  expected_sha256: 'ab'.repeat(32),
  verify: 'read_back',
  preserve_mtime: true,
};
const UNKNOWN = 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
const FAILURE = { code: 'auth_failed', message: 'no', phase: 'source_sign_in' } as const;

describeWithPostgres('changes of transfers over HTTP', () => changes(() => startApi()));

describeOnEventStoreDb('changes of transfers over HTTP', (start) => {
  let stop: (() => Promise<void>) | undefined;
  changes(async () => {
    const log = await start();
    stop = log.close;
    return startApi({}, log.settings);
  });
  afterAll(() => stop?.());
});

function changes(start: () => Promise<TestApi>): void {
  let api: TestApi;
  let keys = 0;
  beforeAll(async () => {
    api = await start();
  });
  afterAll(() => api?.close());

  async function create(body: Record<string, unknown> = {}, key?: string): Promise<string> {
    const options = { json: { ...BODY, ...body }, ...(key === undefined ? {} : { key }) };
    const answer = await api.ask('POST', '/v1/transfers', options);
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    return answer.body.id;
  }

  /** Returns a new transfer in this status. */
  async function createIn(status: string, body: Record<string, unknown> = {}): Promise<string> {
    const id = await create(body);
    if (status === 'cancelled')
      expect(await api.ask('DELETE', `/v1/transfers/${id}`)).toMatchObject({ status: 200 });
    if (status === 'pending' || status === 'cancelled') return id;
    const claim = `clm_${id}`;
    const none = { claimId: claim, source: null, destination: null };
    let { position } = await startTransfer(api.installation, id, none, CAUSE);
    const failed: Outcome = {
      type: 'failed',
      failure: FAILURE,
      figures: FIGURES,
      retryDelays: [],
    };
    const completed: Outcome = {
      type: 'completed',
      sizeBytes: 1,
      speedBps: null,
      checksumSha256: 'ab'.repeat(32),
      verification: VERIFICATION,
    };
    const released: Outcome = { type: 'released', figures: FIGURES, why: 'shutdown' };
    const end = new Map(Object.entries({ queued: released, failed, completed })).get(status);
    if (end) ({ position } = await endAttempt(api.installation, id, claim, end, CAUSE));
    await api.installation.commands.waitFor('transfers', position);
    expect(await detail(id)).toMatchObject({ status });
    return id;
  }

  const detail = async (id: string) => (await api.ask('GET', `/v1/transfers/${id}`)).body;
  const eventsOf = async (id: string) =>
    (await api.ask('GET', `/v1/transfers/${id}/events`)).body.data as {
      type: string;
      actor: string;
      data: Record<string, unknown>;
    }[];
  const retriesOf = async (id: string) =>
    (await api.ask('GET', `/v1/transfers?retry_of=${id}`)).body.data.map(
      (item: { id: string }) => item.id,
    );
  const newKey = () => `change-${keys++}`;
  const post = (path: string, json: unknown, key: string | null = null, server: Server = api) =>
    server.ask('POST', `/v1/transfers/${path}`, {
      ...(json === null ? {} : { json }),
      ...(key === null ? {} : { headers: { 'idempotency-key': key } }),
    });
  const bulk = async (json: unknown) => {
    const answer = await post('bulk', json);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    expect(bulkAnswer.parse(answer.body)).toEqual(answer.body);
    return answer.body;
  };

  /** Starts a server that loses the store after this many appends: the last one is lost or not. */
  function startDyingServer(appends: number, last: 'lost' | 'stored'): Promise<Server> {
    const { installation } = api;
    let left = appends;
    const store: EventStore = {
      ...installation.store,
      async append(...append) {
        if (left-- > 0) return installation.store.append(...append);
        if (left === -1 && last === 'stored') await installation.store.append(...append);
        throw new EventStoreUnavailable('gone');
      },
    };
    return api.startServer({ store, commands: { ...installation.commands, store } });
  }

  const refusal = (status: number, code: string, current_status?: string) => ({
    status,
    body: { code, ...(current_status === undefined ? {} : { current_status }) },
  });

  describe('a retry', () => {
    test.each(['failed', 'cancelled'])('of a %s transfer repeats it', async (status) => {
      const old = await createIn(status);
      const answer = await post(`${old}/retry`, null);
      expect(answer.status).toBe(201);
      expect(schemas.retriedTransfer.parse(answer.body)).toEqual(answer.body);
      const { id } = answer.body;
      const { source_uri, destination_uri, priority, metadata, ...options } = BODY;
      const { expected_sha256, verify, preserve_mtime } = options;
      expect(answer.body).toMatchObject({ source_uri, destination_uri, priority, retry_of: old });
      expect(answer.headers.get('location')).toBe(`/v1/transfers/${id}`);
      expect(await detail(id)).toMatchObject({
        id,
        status: 'pending',
        source: source_uri,
        destination: 's3://archive/in/report.csv',
        priority,
        metadata,
        expected_sha256,
        verify,
        preserve_mtime,
        retry_of: old,
        retry_count: 0,
        error: null,
      });
      expect(await eventsOf(id)).toMatchObject([
        { type: 'transfer.created', data: { retry_of: old, notify_on_complete: true } },
      ]);
      expect(await detail(old)).toMatchObject({ status, retry_of: null });
      expect(await retriesOf(old)).toEqual([id]);
      const { body } = await api.ask('GET', '/v1/transfers?limit=1');
      expect(body.data).toMatchObject([{ id, retry_of: old }]);
    });

    test('can itself be retried', async () => {
      const { body } = await post(`${await createIn('cancelled')}/retry`, {});
      await api.ask('DELETE', `/v1/transfers/${body.id}`);
      expect(await post(`${body.id}/retry`, null)).toMatchObject({
        status: 201,
        body: { retry_of: body.id },
      });
    });

    test.each(['pending', 'queued', 'in_progress', 'completed'])(
      'of a transfer that is %s is rejected',
      async (status) => {
        const id = await createIn(status);
        expect(await post(`${id}/retry`, null)).toMatchObject(
          refusal(409, 'transfer_not_retryable', status),
        );
        expect(await retriesOf(id)).toEqual([]);
      },
    );

    test('finds nothing under another id, or in another account', async () => {
      const id = await createIn('cancelled');
      const { key } = await api.createKey(['transfers:write'], { account: 'acc_other' });
      expect(await post('nonsense/retry', null)).toMatchObject(refusal(404, 'not_found'));
      expect(await post(`${UNKNOWN}/retry`, null)).toMatchObject(refusal(404, 'not_found'));
      const theirs = await api.ask('POST', `/v1/transfers/${id}/retry`, { key });
      expect(theirs).toMatchObject(refusal(404, 'not_found'));
    });

    test('of a transfer that left the log says when, as other changes do', async () => {
      const id = newId('txr');
      const { sql } = api.installation;
      await sql`
        insert into read.retention_records values (77, 1, 'old.ndjson', '2026-01-31T00:00:00Z', true)`;
      await sql`insert into read.retained_transfers values (${id}, 'acc_default', 77, 1)`;
      const { key } = await api.createKey(['admin']);
      for (const [method, path, json] of [
        ['POST', '/retry'],
        ['POST', '/abort'],
        ['DELETE', ''],
        ['PATCH', '', { priority: 'high' }],
      ] as const)
        expect(
          await api.ask(method, `/v1/transfers/${id}${path}`, { key, ...(json && { json }) }),
        ).toMatchObject({
          status: 404,
          body: {
            code: 'not_found',
            detail:
              'This transfer left the log on 2026-01-31. The export old.ndjson has its events',
          },
        });
    });

    test('is carried out once under an Idempotency-Key, also across a crash', async () => {
      const [old, other, key] = [
        await createIn('cancelled'),
        await createIn('cancelled'),
        newKey(),
      ];
      const dying = await startDyingServer(0, 'stored');
      expect(await post(`${old}/retry`, null, key, dying)).toMatchObject({ status: 503 });
      const first = await post(`${old}/retry`, null, key);
      expect(first).toMatchObject({ status: 201, body: { retry_of: old } });
      const again = await post(`${old}/retry`, null, key);
      expect(again).toMatchObject({ status: 201, body: first.body });
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(await retriesOf(old)).toEqual([first.body.id]);
      // A key belongs to the transfer in the path, too.
      expect(await post(`${other}/retry`, null, key)).toMatchObject({
        status: 201,
        body: { retry_of: other },
      });
    });

    test('needs the scope of a creation', async () => {
      const { key } = await api.createKey(['transfers:read']);
      for (const [method, path] of [
        ['POST', `${UNKNOWN}/retry`],
        ['PATCH', UNKNOWN],
        ['POST', 'bulk'],
      ] as const)
        expect(await api.ask(method, `/v1/transfers/${path}`, { key, json: {} })).toMatchObject(
          refusal(403, 'insufficient_scope'),
        );
    });
  });

  describe('a change of the priority', () => {
    const patch = (id: string, json: unknown) => api.ask('PATCH', `/v1/transfers/${id}`, { json });

    test.each(['pending', 'queued'])('of a transfer that is %s is an event', async (status) => {
      const id = await createIn(status);
      const events = (await eventsOf(id)).length;
      const answer = await patch(id, { priority: 'high' });
      expect(answer).toMatchObject({ status: 200, body: { id, status, priority: 'high' } });
      expect(schemas.transferDetail.parse(answer.body)).toEqual(answer.body);
      expect(await detail(id)).toEqual(answer.body);
      const [event, ...others] = (await eventsOf(id)).slice(events);
      expect(others).toEqual([]);
      expect(event).toMatchObject({
        type: 'transfer.priority_changed',
        actor: expect.stringMatching(/^key:key_/),
        data: { priority: 'high' },
      });
      expect(await patch(id, { priority: 'high' })).toMatchObject({
        status: 200,
        body: { priority: 'high' },
      });
      expect(await eventsOf(id)).toHaveLength(events + 1);
      const before = await api.ask('GET', `/v1/transfers/${id}?as_of=0`);
      expect(before.body).toMatchObject({ priority: 'low' });
    });

    test.each(['in_progress', 'completed', 'failed', 'cancelled'])(
      'of a transfer that is %s is rejected',
      async (status) => {
        const id = await createIn(status);
        const before = await eventsOf(id);
        for (const priority of ['high', BODY.priority])
          expect(await patch(id, { priority })).toMatchObject(
            refusal(409, 'priority_not_changeable', status),
          );
        expect(await eventsOf(id)).toEqual(before);
      },
    );

    test('finds nothing under another id, or in another account', async () => {
      const { key } = await api.createKey(['transfers:write'], { account: 'acc_other' });
      const theirs = await create({}, key);
      for (const id of ['nonsense', UNKNOWN, theirs])
        expect(await patch(id, { priority: 'high' })).toMatchObject(refusal(404, 'not_found'));
    });

    test.each([
      [{}, 'validation_failed'],
      [{ priority: 'urgent' }, 'validation_failed'],
      [{ priority: 'high', metadata: {} }, 'unknown_field'],
    ])('rejects %j', async (json, code) => {
      expect(await patch(await create(), json)).toMatchObject(refusal(400, code));
    });

    test('of a transfer that a mover starts at the same moment has one place in its history', async () => {
      for (let i = 0; i < 5; i++) {
        const id = await create();
        const none = { claimId: 'clm_1', source: null, destination: null };
        const [changed] = await Promise.all([
          patch(id, { priority: 'high' }),
          startTransfer(api.installation, id, none, CAUSE),
        ]);
        const types = (await eventsOf(id)).map(({ type }) => type);
        const started = ['transfer.created', 'transfer.queued', 'transfer.in_progress'];
        if (changed.status === 409) expect(types).toEqual(started);
        else {
          expect(changed.status).toBe(200);
          expect(types).toEqual(started.toSpliced(1, 0, 'transfer.priority_changed'));
        }
      }
    });
  });

  describe('a bulk change', () => {
    test('retries the transfers that it can, and names each refusal', async () => {
      const [failed, cancelled, pending] = [
        await createIn('failed'),
        await createIn('cancelled'),
        await createIn('pending'),
      ];
      const ids = [failed, pending, cancelled, UNKNOWN, failed, 'nonsense'];
      const answer = await bulk({ action: 'retry', ids });
      expect(answer).toMatchObject({
        action: 'retry',
        matched: 5,
        done: 2,
        refused: 3,
        has_more: false,
        retries: [{ retry_of: failed }, { retry_of: cancelled }],
        refusals: [
          {
            id: pending,
            code: 'transfer_not_retryable',
            detail: 'The transfer is pending; only a failed or cancelled one can be retried',
          },
          { id: UNKNOWN, code: 'not_found' },
          { id: 'nonsense', code: 'not_found' },
        ],
      });
      for (const { id, retry_of } of answer.retries) {
        expect(await detail(id)).toMatchObject({ status: 'pending', retry_of });
        expect(await retriesOf(retry_of)).toEqual([id]);
      }
    });

    test('counts a transfer as done that is as requested already', async () => {
      const [pending, cancelled, done] = [
        await createIn('pending'),
        await createIn('cancelled'),
        await createIn('completed'),
      ];
      const ids = [pending, cancelled, done];
      expect(await bulk({ action: 'cancel', ids })).toMatchObject({
        done: 2,
        refusals: [{ id: done, code: 'transfer_not_cancellable' }],
      });
      const next = await createIn('queued');
      const change = { action: 'set_priority', priority: 'high', ids: [next, cancelled] };
      for (const _ of [1, 2])
        expect(await bulk(change)).toMatchObject({
          done: 1,
          refusals: [{ id: cancelled, code: 'priority_not_changeable' }],
        });
      const types = (await eventsOf(next)).map(({ type }) => type);
      expect(types.filter((type) => type === 'transfer.priority_changed')).toHaveLength(1);
    });

    test('counts transfers as done that others cancel at the same moment', async () => {
      const ids = await Promise.all(Array.from({ length: 32 }, () => createIn('pending')));
      const calls = [1, 2, 3].map(() => bulk({ action: 'cancel', ids }));
      for (const answer of await Promise.all(calls))
        expect(answer).toMatchObject({ done: 32, refusals: [] });
    });

    test('takes the transfers of a filter that the action can change', async () => {
      const destination_uri = `s3://archive/${newKey()}/`;
      const filter = { destination: destination_uri };
      const [failed, cancelled, pending] = [
        await createIn('failed', { destination_uri }),
        await createIn('cancelled', { destination_uri }),
        await createIn('pending', { destination_uri }),
      ];
      await createIn('completed', { destination_uri });
      const priority = 'high';
      const high = await bulk({ action: 'set_priority', priority, filter });
      expect(high).toMatchObject({ matched: 1, done: 1 });
      expect(await detail(pending)).toMatchObject({ priority });

      const some = await bulk({ action: 'retry', filter: { ...filter, status: 'failed' } });
      expect(some).toMatchObject({ matched: 1, retries: [{ retry_of: failed }] });
      // The failed one was retried already.
      const rest = await bulk({ action: 'retry', filter });
      expect(rest).toMatchObject({ matched: 1, retries: [{ retry_of: cancelled }] });
      expect(await bulk({ action: 'retry', filter })).toMatchObject({ matched: 0, refusals: [] });
      expect(await bulk({ action: 'cancel', filter })).toMatchObject({ matched: 3, done: 3 });
    });

    test('takes only the transfers that failed with an error', async () => {
      const destination_uri = `s3://archive/${newKey()}/`;
      const failed = await createIn('failed', { destination_uri });
      await createIn('cancelled', { destination_uri });
      await createIn('pending', { destination_uri });
      const filter = { destination: destination_uri, error_code: FAILURE.code };
      const other = { ...filter, error_code: 'timeout' };
      expect(await bulk({ action: 'retry', filter: other })).toMatchObject({ matched: 0 });
      expect(await bulk({ action: 'cancel', filter })).toMatchObject({ matched: 0 });
      expect(await bulk({ action: 'retry', filter })).toMatchObject({
        matched: 1,
        retries: [{ retry_of: failed }],
      });
      const { status, body } = await post('bulk', {
        action: 'retry',
        filter: { ...filter, error_code: 'oops' },
      });
      expect({ status, field: body.errors[0].field }).toEqual({
        status: 400,
        field: 'filter.error_code',
      });
    });

    test.each(['filter', 'search'])('passes transfers that it refuses: by %s', async (way) => {
      const destination_uri = `s3://archive/${newKey()}/`;
      const q = way === 'search' ? destination_uri.slice(13, -1) : undefined;
      const filter = { destination: destination_uri, q };
      const change = { destination_uri };
      const ids = [
        await createIn('failed', change),
        await createIn('cancelled', change),
        await createIn('failed', change),
      ];
      const find = (continue_from?: string) =>
        findChangeable(
          api.installation.sql,
          'acc_default',
          filter,
          { action: 'retry', ...(continue_from && { continue_from }) },
          2,
        );
      await expect.poll(() => find()).toEqual({ transferIds: ids.slice(0, 2), hasMore: true });
      expect(await find(ids[1])).toEqual({ transferIds: ids.slice(2), hasMore: false });
      const answer = await bulk({ action: 'retry', filter, continue_from: ids[1] });
      expect(answer).toMatchObject({ continue_from: null, retries: [{ retry_of: ids[2] }] });
    });

    test('says from where the next call continues', async () => {
      const transferIds = [await createIn('completed'), await createIn('pending')];
      const found = { transferIds, hasMore: true };
      const { commands } = api.installation;
      const { answer } = await cancelTransfers(commands, 'acc_default', found, CAUSE);
      expect(answer).toMatchObject({ refused: 1, has_more: true, continue_from: transferIds[1] });
    });

    test('takes the transfers that a search finds, and goes on with the next call', async () => {
      const word = `${newKey()}-found`;
      const source_uri = `sftp://files.example.com/out/${word}.csv`;
      const filter = { q: word.toUpperCase(), destination: BODY.destination_uri };
      /** The search finds a transfer a moment after its creation. */
      const untilFound = (transfers: number) =>
        expect
          .poll(async () => (await api.ask('GET', `/v1/transfers?q=${word}`)).body.data.length)
          .toBe(transfers);
      const [failed, cancelled, pending] = [
        await createIn('failed', { source_uri }),
        await createIn('cancelled', { source_uri }),
        await createIn('pending', { source_uri }),
      ];
      await createIn('failed');
      await untilFound(3);
      expect(await bulk({ action: 'retry', filter })).toMatchObject({
        matched: 2,
        done: 2,
        has_more: false,
        retries: [{ retry_of: failed }, { retry_of: cancelled }],
      });
      expect(await bulk({ action: 'retry', filter })).toMatchObject({ matched: 0 });
      const later = await createIn('failed', { source_uri });
      await untilFound(6);
      expect(await bulk({ action: 'retry', filter })).toMatchObject({
        matched: 1,
        retries: [{ retry_of: later }],
      });
      await untilFound(7);
      const high = { action: 'set_priority', priority: 'high', filter };
      expect(await bulk(high)).toMatchObject({ matched: 4, done: 4 });
      expect(await bulk(high)).toMatchObject({ matched: 0 });
      expect(await bulk({ action: 'cancel', filter })).toMatchObject({ matched: 4, done: 4 });
      expect(await detail(pending)).toMatchObject({ status: 'cancelled', priority: 'high' });
    });

    test('changes no transfer of another account', async () => {
      const { key } = await api.createKey(['transfers:write'], { account: 'acc_other' });
      const theirs = await create({ destination_uri: 's3://archive/theirs/' }, key);
      const filter = { destination: 's3://archive/theirs/' };
      expect(await bulk({ action: 'cancel', filter })).toMatchObject({ matched: 0 });
      expect(await bulk({ action: 'cancel', ids: [theirs] })).toMatchObject({
        refusals: [{ id: theirs, code: 'not_found' }],
      });
      const { body } = await api.ask('GET', `/v1/transfers/${theirs}`, { key });
      expect(body).toMatchObject({ status: 'pending' });
    });

    test.each<[string, object, string[]]>([
      ['neither ids nor a filter', { action: 'retry' }, ['ids']],
      ['both', { action: 'retry', ids: [UNKNOWN], filter: {} }, ['ids']],
      ['no id', { action: 'retry', ids: [] }, ['ids']],
      [
        'too many ids',
        { action: 'retry', ids: Array.from({ length: BULK_LIMIT + 1 }, (_, i) => `txr_${i}`) },
        ['ids'],
      ],
      ['another action', { action: 'delete', ids: [UNKNOWN] }, ['action']],
      ['no priority', { action: 'set_priority', ids: [UNKNOWN] }, ['priority']],
      [
        'a priority without need',
        { action: 'cancel', priority: 'high', ids: [UNKNOWN] },
        ['priority'],
      ],
      [
        'a transfer to continue from with ids',
        { action: 'cancel', ids: [UNKNOWN], continue_from: UNKNOWN },
        ['continue_from'],
      ],
      [
        'an unknown transfer to continue from',
        { action: 'cancel', filter: {}, continue_from: UNKNOWN },
        ['continue_from'],
      ],
      [
        'a filter that names no id',
        { action: 'cancel', filter: { retry_of: 'bat_1', batch_id: UNKNOWN } },
        ['filter.retry_of', 'filter.batch_id'],
      ],
      ['an unknown filter', { action: 'cancel', filter: { state: 'pending' } }, ['filter.state']],
      [
        'dates out of order',
        { action: 'cancel', filter: { from_date: '2026-02-01', to_date: '2026-01-01' } },
        ['filter.from_date'],
      ],
    ])('rejects %s', async (_what, json, fields) => {
      const { status, body } = await post('bulk', json);
      expect(status).toBe(400);
      expect(body.errors.map(({ field }: { field: string }) => field)).toEqual(fields);
    });

    test('retries what a filter finds once, also in calls at the same moment', async () => {
      const destination_uri = `s3://archive/${newKey()}/`;
      const failed = [
        await createIn('failed', { destination_uri }),
        await createIn('failed', { destination_uri }),
      ];
      const retry = { action: 'retry', filter: { destination: destination_uri } };
      const answers = await Promise.all([1, 2, 3].map(() => bulk(retry)));
      expect(answers.map(({ matched }) => matched).sort()).toEqual([0, 0, 2]);
      for (const id of failed) expect(await retriesOf(id)).toHaveLength(1);
      // Each of these asks for another retry.
      await bulk({ action: 'retry', ids: failed });
      for (const id of failed) expect(await retriesOf(id)).toHaveLength(2);
    });

    test('that is completed later leaves out what others have retried', async () => {
      const destination_uri = `s3://archive/${newKey()}/`;
      const failed = [
        await createIn('failed', { destination_uri }),
        await createIn('failed', { destination_uri }),
        await createIn('failed', { destination_uri }),
      ];
      const retry = { action: 'retry', filter: { destination: destination_uri } };
      const key = newKey();
      const dying = await startDyingServer(1, 'lost');
      expect(await post('bulk', retry, key, dying)).toMatchObject({ status: 503 });
      const other = await bulk(retry);
      expect(other).toMatchObject({ matched: 2, done: 2 });
      const { body } = await post('bulk', retry, key);
      expect(body).toMatchObject({ matched: 1, done: 1, refused: 0 });
      const created = [...body.retries, ...other.retries];
      expect(created.map(({ retry_of }) => retry_of).sort()).toEqual(failed.toSorted());
      for (const id of failed) expect(await retriesOf(id)).toHaveLength(1);
    });

    test.each(['lost', 'stored'] as const)(
      'is completed by the same request after the store went away: the last append is %s',
      async (last) => {
        const destination_uri = `s3://archive/${newKey()}/`;
        const old = await Promise.all(
          Array.from({ length: 40 }, () => createIn('cancelled', { destination_uri })),
        );
        const key = newKey();
        const json = { action: 'retry', filter: { destination: destination_uri } };
        const dying = await startDyingServer(25, last);
        expect(await post('bulk', json, key, dying)).toMatchObject({ status: 503 });
        // A later one does not belong to the call.
        const later = await createIn('cancelled', { destination_uri });
        const answer = await post('bulk', json, key);
        expect(answer).toMatchObject({ status: 200, body: { done: old.length, refused: 0 } });
        const replayed: Answer = await post('bulk', json, key);
        expect(replayed.body).toEqual(answer.body);
        const created = new Map<string, string>(
          answer.body.retries.map((retry: { id: string; retry_of: string }) => [
            retry.retry_of,
            retry.id,
          ]),
        );
        expect([...created.keys()].sort()).toEqual(old.toSorted());
        const open = await api.ask(
          'GET',
          `/v1/transfers?status=pending&limit=100&destination=${destination_uri}`,
        );
        expect(open.body.data.map(({ id }: { id: string }) => id).sort()).toEqual(
          [...created.values()].sort(),
        );
        expect(await bulk(json)).toMatchObject({ retries: [{ retry_of: later }] });
      },
    );
  });
}
