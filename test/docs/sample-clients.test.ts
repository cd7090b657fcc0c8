import { afterAll, beforeAll, test } from 'vitest';
import { tryClient } from '../support/clients/sample-clients.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { whyNo } from '../support/programs/why-no.ts';
import { LONG } from '../support/run/long.ts';

describeWithPostgres('the complete client in docs/clients.md', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('in TypeScript works', LONG, async () => {
    await tryClient(api, 'ts', 'client.ts', [process.execPath, 'client.ts']);
  });

  test('in Python works', async (ctx) => {
    const reason = whyNo('python3');
    if (reason !== null) return ctx.skip(reason);
    await tryClient(api, 'python', 'client.py', ['python3', 'client.py']);
  });
});
