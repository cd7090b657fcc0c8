import { afterAll, beforeAll, test } from 'vitest';
import { startApi, type TestApi } from './support/api.ts';
import { describeWithPostgres } from './support/postgres.ts';
import { whyNo } from './support/programs.ts';
import { tryClient } from './support/sample-clients.ts';

describeWithPostgres('the complete client in docs/clients.md', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('in TypeScript works', async () => {
    await tryClient(api, 'ts', 'client.ts', [process.execPath, 'client.ts']);
  });

  test('in Python works', async (ctx) => {
    const reason = whyNo('python3');
    if (reason !== null) return ctx.skip(reason);
    await tryClient(api, 'python', 'client.py', ['python3', 'client.py']);
  });
});
