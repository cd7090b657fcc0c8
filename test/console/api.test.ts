import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  printErrorAdvice,
  printEventWords,
  printLimits,
  printOperations,
  printProtocols,
} from '../../scripts/console-api.ts';
import { BANDWIDTH_WINDOWS } from '../../src/contract/endpoints/bandwidth.ts';
import { DEFAULT_CONNECTIONS } from '../../src/contract/endpoints/requests.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { COUNTED_TO, LONGEST_PAGE } from '../../src/contract/pages.ts';
import { LAG_COUNTED_TO } from '../../src/contract/projections.ts';
import { COUNTED_FAILURES } from '../../src/contract/transfers/answers.ts';
import { METADATA_KEYS } from '../../src/contract/transfers/requests.ts';
import { rotationRequest } from '../../src/contract/webhooks/requests.ts';
import { AUDIT_KINDS, AUDIT_TITLES, EVENT_WORDS } from '../../src/domain/audit.ts';
import { parseDuration } from '../../src/domain/durations.ts';
import { LIFETIME } from '../../src/domain/key.ts';
import { PROTOCOLS } from '../../src/domain/protocols/index.ts';
import { TRANSFER_ERRORS } from '../../src/domain/transfers/errors.ts';
import { FAILED_KEPT_DAYS } from '../../src/domain/webhook.ts';
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

test("match the service's limits (if not, run `npm run console-api`)", async () => {
  const limits = {
    BANDWIDTH_WINDOWS,
    COUNTED_FAILURES,
    COUNTED_TO,
    DEFAULT_CONNECTIONS,
    FAILED_KEPT_DAYS,
    LAG_COUNTED_TO,
    LONGEST_PAGE,
    METADATA_KEYS,
  };
  await expect(printLimits(limits)).toMatchFileSnapshot('../../src/console/api/limits.ts');
});

const sourceOf = (file: string) => readFileSync(join('src/console', file), 'utf8');
/** Returns the values of a list of choices, and the one that is chosen at first. */
function choicesIn(file: string, name: string, state: string) {
  const source = sourceOf(file);
  const list = source.split(`const ${name}: `)[1]?.split('\n];')[0] ?? '';
  const values = [...list.matchAll(/\['(\w+)',/g)].map(([, value]) => value as string);
  const initial = new RegExp(`\\[${state}, \\w+\\] = useState\\('(\\w+)'\\)`).exec(source)?.[1];
  return { values, initial };
}

test('offers lives of keys that the API takes, and its default', () => {
  const { values, initial } = choicesIn('pages/keys/new.tsx', 'LIVES', 'expiresIn');
  for (const expires_in of values)
    expect(keyRequest.parse({ name: 'key', role: 'viewer', expires_in })).toMatchObject({
      expires_in,
    });
  const longest = Math.max(
    ...values.filter((value) => value !== 'never').map((value) => parseDuration(value)),
  );
  expect(longest).toBe(parseDuration(LIFETIME.longest));
  expect(initial).toBe(LIFETIME.default);
});

test('offers times for the old secret of a webhook that the API takes, and its default', () => {
  const { values, initial } = choicesIn('pages/webhooks/dialogs.tsx', 'GRACES', 'grace');
  const secret = `whsec_${'A'.repeat(43)}=`;
  for (const grace of values) expect(rotationRequest.parse({ secret, grace }).grace).toBe(grace);
  expect(values).toContain('7d');
  expect(initial).toBe(rotationRequest.parse(null).grace);
});

test('asks for pages that the API has', () => {
  const pages = globSync('src/console/**/*.tsx').flatMap((file) => {
    const found = /^const PAGE = (\d+);/m.exec(readFileSync(file, 'utf8'))?.[1];
    return found === undefined ? [] : Number(found);
  });
  expect(pages.length).toBeGreaterThan(0);
  expect(Math.max(...pages)).toBeLessThanOrEqual(LONGEST_PAGE);
});
