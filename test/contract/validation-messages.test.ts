import { expect, it } from 'vitest';
import { z } from 'zod';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { inWords } from '../../src/contract/validation-messages.ts';
import { webhookRequest } from '../../src/contract/webhooks/requests.ts';

const SFTP = { name: 'bank', protocol: 'sftp', host: 'bank.example', username: 'u', password: 'p' };
const TRANSFER = { source_uri: 'sftp://a/x', destination_uri: 'sftp://b/y' };
const WEBHOOK = { url: 'https://a.example/', events: ['transfer.failed'] };

it.each([
  ['a missing value', transferRequest, { ...TRANSFER, source_uri: undefined }, 'is required'],
  [
    'a list in place of an object',
    transferRequest,
    { ...TRANSFER, metadata: [] },
    'must be an object',
  ],
  [
    'a number in place of a text',
    transferRequest,
    { ...TRANSFER, source_uri: 1 },
    'must be a string',
  ],
  ['a fraction', endpointRequest, { ...SFTP, port: 22.5 }, 'must be a whole number'],
  ['a number that is too small', endpointRequest, { ...SFTP, port: 0 }, 'must be at least 1'],
  [
    'a number that is too large',
    endpointRequest,
    { ...SFTP, port: 65_536 },
    'must be at most 65535',
  ],
  ['a whole number beyond all', z.int(), 1e300, `must be at most ${Number.MAX_SAFE_INTEGER}`],
  ['an empty text', endpointRequest, { ...SFTP, username: '' }, 'must not be empty'],
  [
    'a long text',
    webhookRequest,
    { ...WEBHOOK, url: `https://a.example/${'x'.repeat(2_048)}` },
    'must have at most 2048 characters',
  ],
  ['an empty list', endpointRequest, { ...SFTP, accounts: [] }, 'must not be empty'],
  [
    'an unknown choice',
    transferRequest,
    { ...TRANSFER, priority: 'urgent' },
    'must be one of low, normal, high',
  ],
  [
    'another value than the only one',
    transferRequest,
    { ...TRANSFER, verify: 'checksum' },
    'must be read_back',
  ],
  [
    'an unknown protocol',
    endpointRequest,
    { ...SFTP, protocol: 'scp' },
    'must be one of sftp, ftps, s3, azure',
  ],
  [
    'a value with a message of its own',
    transferRequest,
    { ...TRANSFER, metadata: { a: 'x'.repeat(257) } },
    'must be at most 256 characters long',
  ],
])('the message for %s says what is expected', (_what, schema, value, words) => {
  expect(
    schema.safeParse(value, { error: inWords }).error?.issues.map(({ message }) => message),
  ).toEqual([words]);
});
