import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/http/api.ts';
import { holdRows, type RowLock } from '../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/a.csv',
  destination_uri: 's3://archive/in/',
};

// With an EventStoreDB, the creation itself waits: then nothing can be read too early.
describeWithPostgres('a transfer that the read model does not show yet', () => {
  let api: TestApi;
  let readModel: RowLock;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());
  beforeEach(async () => {
    await api.installation.commands.catchUp('transfers');
    readModel = await holdRows(
      api.installation.sql,
      (tx) => tx`select from read.checkpoints where name = 'transfers' for update`,
    );
  });
  afterEach(() => readModel.release());

  async function create(key = api.key): Promise<string> {
    const { status, body } = await api.ask('POST', '/v1/transfers', { json: BODY, key });
    expect(status, JSON.stringify(body)).toBe(201);
    return body.id;
  }

  test.each([
    ['a list', () => '/v1/transfers?limit=1', 'data.0.id'],
    ['the transfer', (id: string) => `/v1/transfers/${id}`, 'id'],
  ])('is waited for by %s, in any process', async (_, path, field) => {
    const id = await create();
    const other = await api.startServer();
    let answered = false;
    const answer = other.ask('GET', path(id)).finally(() => {
      answered = true;
    });
    await sleep(300);
    expect(answered).toBe(false);
    await readModel.release();
    expect((await answer).body).toHaveProperty(field, id);
  });

  test('is in the counts of the next request', async () => {
    const { key } = await api.createKey(['transfers:read', 'transfers:write'], {
      account: 'acc_counts',
    });
    await create(key);
    const counts = api.ask('GET', '/v1/transfers/summary', { key });
    await readModel.release();
    expect((await counts).body).toMatchObject({ total: 1, by_status: { pending: 1 } });
  });

  test('counts among the open transfers of its account alone', async () => {
    const [one, other] = await Promise.all(
      ['acc_one', 'acc_other'].map((account) => api.createKey(['transfers:write'], { account })),
    );
    const full = await api.startServer({
      commands: { ...api.installation.commands, maxOpenTransfers: 1 },
    });
    const post = (key: string) => full.ask('POST', '/v1/transfers', { json: BODY, key });
    expect((await post(one!.key)).status).toBe(201);
    expect((await post(one!.key)).body.code).toBe('limit_reached');
    expect((await post(other!.key)).status).toBe(201);
  });
});
