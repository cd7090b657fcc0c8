import { expect, it } from 'vitest';
import { endpointRequest, transferRequest } from '../../src/commands/requests.ts';
import { webhookRequest } from '../../src/commands/webhook-requests.ts';
import { inWords } from '../../src/commands/wording.ts';

const SFTP = { name: 'bank', protocol: 'sftp', host: 'bank.example', username: 'u', password: 'p' };
const TRANSFER = { source_uri: 'sftp://a/x', destination_uri: 'sftp://b/y' };
const WEBHOOK = { url: 'https://a.example/', events: ['transfer.failed'] };

it.each([
  ['what is missing', transferRequest, { ...TRANSFER, source_uri: undefined }, 'is required'],
  ['a list for an object', transferRequest, { ...TRANSFER, metadata: [] }, 'must be an object'],
  ['a number for text', transferRequest, { ...TRANSFER, source_uri: 1 }, 'must be a string'],
  ['a fraction', endpointRequest, { ...SFTP, port: 22.5 }, 'must be a whole number'],
  ['too small a number', endpointRequest, { ...SFTP, port: 0 }, 'must be at least 1'],
  ['too large a number', endpointRequest, { ...SFTP, port: 65_536 }, 'must be at most 65535'],
  ['an empty text', endpointRequest, { ...SFTP, username: '' }, 'must not be empty'],
  ['a long text', webhookRequest, { ...WEBHOOK, url: `https://a.example/${'x'.repeat(2_048)}` }, 'must have at most 2048 characters'],
  ['an empty list', endpointRequest, { ...SFTP, accounts: [] }, 'must not be empty'],
  ['a word of no choice', transferRequest, { ...TRANSFER, priority: 'urgent' }, 'must be one of low, normal, high'],
  ['a protocol that is not known', endpointRequest, { ...SFTP, protocol: 'scp' }, 'must be one of sftp, ftps, s3, azure'],
  ['what has words of its own', transferRequest, { ...TRANSFER, metadata: { a: 'x'.repeat(257) } }, 'must be at most 256 characters long'],
])('says of %s what it must be', (_what, schema, value, words) => {
  expect(schema.safeParse(value, { error: inWords }).error?.issues.map(({ message }) => message)).toEqual([words]);
});
