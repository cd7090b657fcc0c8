import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  printErrorAdvice,
  printEventWords,
  printOperations,
  printProtocols,
} from '../../scripts/console-api.ts';
import { METADATA_KEYS } from '../../src/contract/transfers/requests.ts';
import { AUDIT_KINDS, AUDIT_TITLES, EVENT_WORDS } from '../../src/domain/audit.ts';
import { PROTOCOLS } from '../../src/domain/protocols/index.ts';
import { TRANSFER_ERRORS } from '../../src/domain/transfers/errors.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

describeWithPostgres("the console's types", () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('match the OpenAPI document (if not, run `npm run console-api`)', async () => {
    const { status, body } = await api.ask('GET', '/v1/openapi.json', { key: null });
    expect({ status, body }).toMatchObject({ status: 200 });
    await expect(printOperations(body)).toMatchFileSnapshot('../../src/console/api/api-types.ts');
  });
});

test("match the service's protocols (if not, run `npm run console-api`)", async () => {
  await expect(printProtocols(PROTOCOLS)).toMatchFileSnapshot('../../src/console/api/protocols.ts');
});

test("match the service's advice on errors (if not, run `npm run console-api`)", async () => {
  await expect(printErrorAdvice(TRANSFER_ERRORS)).toMatchFileSnapshot(
    '../../src/console/api/error-advice.ts',
  );
});

test("match the service's words for events (if not, run `npm run console-api`)", async () => {
  await expect(printEventWords({ EVENT_WORDS, AUDIT_KINDS, AUDIT_TITLES })).toMatchFileSnapshot(
    '../../src/console/api/event-words.ts',
  );
});

test('has the limit of the API for metadata', () => {
  const source = readFileSync('src/console/pages/transfers/new/metadata-fields.tsx', 'utf8');
  expect(source).toContain(`const MAX_ENTRIES = ${METADATA_KEYS};`);
});
