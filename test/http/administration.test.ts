import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const GUIDE = join(import.meta.dirname, '../../docs/clients.md');

describeWithPostgres('the guide for clients', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('lists every administration route, and no other', async () => {
    const { paths } = (await api.ask('GET', '/v1/openapi.json', { key: null })).body as {
      paths: OpenAPIV3_1.PathsObject;
    };
    const routes = Object.entries(paths).flatMap(([path, item]) =>
      Object.entries(item as Record<string, OpenAPIV3_1.OperationObject>)
        .filter(([, { tags }]) => tags?.includes('Administration'))
        .map(([method, { summary }]) => `| \`${method.toUpperCase()} ${path}\` | ${summary} |`),
    );
    const section =
      readFileSync(GUIDE, 'utf8')
        .split(/^## /m)
        .find((text) => text.startsWith('Administration\n')) ?? '';
    expect(
      section
        .split('\n')
        .filter((line) => line.startsWith('| `'))
        .toSorted(),
    ).toEqual(routes.toSorted());
  });
});
