import { expect, it } from 'vitest';
import type { z } from 'zod';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { webhookRequest } from '../../src/contract/webhooks/requests.ts';
import type { DomainError } from '../../src/domain/errors.ts';
import { validatorCompiler } from '../../src/http/requests/validation.ts';

const ITEM = { source_uri: 'sftp://a/x', destination_uri: 'sftp://b/y' };
const SFTP = { name: 'bank', protocol: 'sftp', host: 'bank.example', username: 'u', password: 'p' };
const ONES = Array.from({ length: 32_000 }, () => 1);

const wrongFields = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, 1]));

function rejected(schema: z.ZodType, body: unknown): DomainError {
  const check = validatorCompiler({ schema, httpPart: 'body', method: 'POST', url: '/' });
  return (check(body) as { error: DomainError }).error;
}

it.each([
  ['unknown fields of one item', { items: [{ ...ITEM, ...wrongFields(45_000) }] }, 44_900],
  ['unknown fields of many items', { items: Array(1_000).fill(wrongFields(9)) }, 10_900],
])('names the first 100 errors and counts the others: %s', (_what, body, others) => {
  const { message, details } = rejected(batchRequest, body);
  expect(details.errors).toHaveLength(100);
  const named = details.errors?.map((error) => `${error.field}: ${error.message}`);
  expect(message).toBe([...(named ?? []), `and ${others} more`].join('; '));
});

it('names all of 100 errors', () => {
  const { message, details } = rejected(batchRequest, { items: [ITEM], ...wrongFields(100) });
  expect(details.errors).toHaveLength(100);
  expect(message).not.toMatch(/more$/);
});

it.each([
  ['events', webhookRequest, { url: 'https://a.example/', events: ONES }],
  ['scopes', keyRequest, { name: 'reports', scopes: ONES }],
  ['accounts', endpointRequest, { ...SFTP, accounts: ONES }],
  ['metadata', batchRequest, { items: [ITEM], metadata: wrongFields(50_000) }],
  ['items[0].metadata', batchRequest, { items: [{ ...ITEM, metadata: wrongFields(50_000) }] }],
])('checks no value of %s that has too many', (field, schema, body) => {
  const { details } = rejected(schema, body);
  expect(details.errors).toEqual([
    {
      field,
      code: 'validation_failed',
      message: expect.stringMatching(/^must have at most \d+ (items|keys)$/),
    },
  ]);
});

it.each([
  ['events', webhookRequest, { url: 'https://a.example/', events: '' }, 'must be an array'],
  [
    'events',
    webhookRequest,
    { url: 'https://a.example/', events: 'x'.repeat(99) },
    'must be an array',
  ],
  ['name', keyRequest, { name: [], scopes: ['admin'] }, 'must be a string'],
  ['accounts', endpointRequest, { ...SFTP, accounts: 'x'.repeat(2_000) }, 'must be an array'],
])(
  'says nothing about the length of a value of %s of another type',
  (field, schema, body, message) => {
    const { details } = rejected(schema, body);
    expect(details.errors).toEqual([{ field, code: 'validation_failed', message }]);
  },
);

it('names a field whose name is empty', () => {
  expect(rejected(webhookRequest, { url: 'https://a.example/', events: ['ping'], '': 1 })).toEqual(
    expect.objectContaining({ message: expect.stringContaining('"": is not a known field') }),
  );
});

it('shortens a name that is longer than the name of any field', () => {
  const name = `${'k'.repeat(99)}\u{1f600}k`;
  expect(rejected(batchRequest, { items: [ITEM], [name]: 1 }).details.errors).toEqual([
    { field: `${'k'.repeat(99)}\ufffd...`, code: 'unknown_field', message: 'is not a known field' },
  ]);
});

it.each([1e300, Number.MAX_SAFE_INTEGER + 2])('names one limit of the number %d', (port) => {
  expect(rejected(endpointRequest, { ...SFTP, port }).message).toBe('port: must be at most 65535');
});
