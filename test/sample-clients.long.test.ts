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

  test('in C# works', async (ctx) => {
    const reason = whyNo('dotnet');
    if (reason !== null) return ctx.skip(reason);
    await tryClient(api, 'csharp', 'client.cs', ['dotnet', 'run', 'client.cs', '--']);
  });
});
