import { afterAll, beforeAll, expect, test } from 'vitest';
import { printOperations } from '../../scripts/console-api.ts';
import { startApi, type TestApi } from '../support/api.ts';
import { describeWithPostgres } from '../support/postgres.ts';

describeWithPostgres("the console's types", () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('are those of the OpenAPI document: where this fails, `npm run console-api` makes them anew', async () => {
    const { status, body } = await api.ask('GET', '/v1/openapi.json', { key: null });
    expect({ status, body }).toMatchObject({ status: 200 });
    await expect(printOperations(body)).toMatchFileSnapshot('../../src/console/api/operations.ts');
  });
});
