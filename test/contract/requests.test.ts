import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import { endpoint } from '../../src/contract/endpoints/answers.ts';
import { endpointRequest, hasCredentials } from '../../src/contract/endpoints/requests.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { bulkRequest } from '../../src/contract/transfers/bulk.ts';
import { transferFilters, transferRequest } from '../../src/contract/transfers/requests.ts';
import { webhookRequest } from '../../src/contract/webhooks/requests.ts';
import { PROTOCOLS } from '../../src/domain/protocols/index.ts';

const TRANSFER = { source_uri: 'sftp://from/a.csv', destination_uri: 'sftp://to/in/' };
const SFTP = {
  name: 'files',
  protocol: 'sftp',
  host: 'Files.Example.com',
  username: 'me',
  password: 'secret',
};

/** Returns `field: code or message` of every error; empty if there is none. */
function problems(schema: z.ZodType, value: unknown): string[] {
  const { error } = schema.safeParse(value);
  return (error?.issues ?? []).flatMap((issue) => {
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => `${[...issue.path, key].join('.')}: unknown`);
    const code = issue.code === 'custom' ? (issue.params?.code ?? issue.message) : issue.code;
    return [`${issue.path.join('.')}: ${code}`];
  });
}
const ofTransfer = (changes: Record<string, unknown>) =>
  problems(transferRequest, { ...TRANSFER, ...changes });
const ofMetadata = (json: string) => ofTransfer({ metadata: JSON.parse(json) as unknown });

describe('a transfer request', () => {
  it('has defaults', () => {
    expect(transferRequest.parse(TRANSFER)).toEqual({
      ...TRANSFER,
      priority: 'normal',
      notify_on_complete: false,
      metadata: {},
    });
  });

  it('reports all errors at once', () => {
    const wrong = {
      source_uri: 'sftp://me:hunter2@from/a',
      destination_uri: 'gopher://to/a',
      priority: 'urgent',
      notify_on_complete: 'yes',
      metadata: { a: 1 },
      colour: 'red',
    };
    expect(ofTransfer(wrong)).toEqual([
      'source_uri: credentials_in_uri',
      'destination_uri: validation_failed',
      'priority: invalid_value',
      'notify_on_complete: invalid_type',
      'metadata.a: invalid_type',
      'colour: unknown',
    ]);
    expect(JSON.stringify(transferRequest.safeParse(wrong).error)).not.toContain('hunter2');
    expect(problems(transferRequest, {})).toEqual([
      'source_uri: invalid_type',
      'destination_uri: invalid_type',
    ]);
  });

  it.each([null, [], 'text', 1, undefined])('is an object, not %j', (value) => {
    expect(problems(transferRequest, value)).toEqual([': invalid_type']);
  });

  it.each(['sftp://from', 'sftp://from/', 'sftp://from/dir/', 's3://bucket'])(
    'names a file as its source, not %s',
    (source_uri) => {
      expect(ofTransfer({ source_uri })).toEqual([
        'source_uri: must name a file: it ends in a slash or names no path',
      ]);
    },
  );

  it.each(['__proto__', 'constructor', 'prototype'])('rejects the metadata key %s', (key) => {
    expect(ofMetadata(`{"a":"b","${key}":"x"}`)).toEqual([
      'metadata: must not use the keys __proto__, constructor, prototype',
    ]);
    expect(ofMetadata(`{"a":"b","${key}":{"toString":"x"}}`)[0]).toContain(
      'metadata: must not use',
    );
    expect(
      problems(
        transferRequest,
        JSON.parse(`{"source_uri":"sftp://a/b","destination_uri":"sftp://a/c","${key}":{}}`),
      ),
    ).toEqual([`${key}: unknown`]);
  });

  it.each(['me%3Ahunter2', 'me%3ahunter2', '%3Ahunter2', 'me@corp%3Ahunter2'])(
    'has no password that is encoded as part of the user name: %s',
    (user) => {
      for (const field of ['source_uri', 'destination_uri'])
        expect(ofTransfer({ [field]: `sftp://${user}@from/a` })).toEqual([
          `${field}: credentials_in_uri`,
        ]);
    },
  );

  it('has at most ten metadata keys, of at most 256 characters each', () => {
    const keys = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`key${i}`, 'value']));
    expect(ofTransfer({ metadata: keys(10) })).toEqual([]);
    expect(ofTransfer({ metadata: keys(11) })).toEqual(['metadata: must have at most 10 keys']);
    expect(ofTransfer({ metadata: { a: 'x'.repeat(256), ['k'.repeat(256)]: '' } })).toEqual([]);
    expect(
      ofTransfer({ metadata: { a: '\u{1f4e6}'.repeat(256), ['\u{1f4e6}'.repeat(256)]: '' } }),
    ).toEqual([]);
    expect(ofTransfer({ metadata: { a: 'x'.repeat(257) } })).toEqual([
      'metadata.a: must be at most 256 characters long',
    ]);
    expect(ofTransfer({ metadata: { '': 'x' } })).toEqual(['metadata.: invalid_key']);
    expect(ofTransfer({ metadata: { ['k'.repeat(257)]: '' } })).toEqual([
      `metadata.${'k'.repeat(257)}: invalid_key`,
    ]);
  });

  it('takes null for no metadata', () => {
    const request = { ...TRANSFER, metadata: null };
    expect(transferRequest.parse(request).metadata).toEqual({});
  });

  it.each([[], 'text', ['a']])('has metadata that is an object, not %j', (metadata) => {
    expect(ofTransfer({ metadata })).toEqual(['metadata: invalid_type']);
  });

  it.each(['\\u0000', '\\ud800', '\\udc00x'])(
    'has no NUL and no unpaired surrogate in any field: %s',
    (half) => {
      const message = 'must not contain a NUL character or an unpaired surrogate';
      expect(ofMetadata(`{"a":"x${half}"}`)).toEqual([`metadata.a: ${message}`]);
      expect(ofMetadata(`{"x${half}":"a"}`)[0]).toMatch(/^metadata\..*: invalid_key$/);
      expect(ofTransfer(JSON.parse(`{"destination_uri":"sftp://to/x${half}"}`))[0]).toContain(
        'destination_uri: ',
      );
    },
  );
});

describe('a bulk request', () => {
  it.each(['txr_\0', 'txr_\ud800'])('has no NUL and no unpaired surrogate in an id: %j', (id) => {
    expect(problems(bulkRequest, { action: 'cancel', ids: ['txr_1', id] })).toEqual([
      'ids.1: must not contain a NUL character or an unpaired surrogate',
    ]);
  });
});

describe('a time limit', () => {
  const message = (from_date: string) =>
    transferFilters.safeParse({ from_date }).error?.issues.map((issue) => issue.message);

  it('does not ask for an encoded plus sign where none is missing', () => {
    expect(message('yesterday')).toEqual([
      'must be a date (YYYY-MM-DD) or an RFC 3339 time with an offset',
    ]);
  });

  it('asks for an encoded plus sign where a query has lost it', () => {
    expect(message('2026-01-31T00:00:00 01:00')).toEqual([
      'must be a date (YYYY-MM-DD) or an RFC 3339 time with an offset: in a query, write + as %2B',
    ]);
  });
});

describe('a time limit of the right form', () => {
  it.each([
    '9999-12-31T23:59:59-12:00',
    '0000-01-01T00:00:00Z',
    '2026-02-30',
    '2026-01-31T12:00:60Z',
  ])('is rejected with the reason: %s', (from_date) => {
    const [issue] = transferFilters.safeParse({ from_date }).error?.issues ?? [];
    expect(issue?.message).toMatch(/does not exist, or is not in the years 1 to 9999 of UTC$/);
  });
});

describe('a batch request with items', () => {
  it('takes null for metadata as none of its own', () => {
    const items = [{ ...TRANSFER, metadata: null }];
    expect(batchRequest.parse({ items, metadata: null })).toMatchObject({
      items: [{ ...TRANSFER, metadata: undefined }],
      metadata: {},
    });
  });
});

describe('a batch request for a folder', () => {
  it.each([
    [{}, 'is required'],
    [{ destination_uri: 'sftp://to/in' }, 'must end in a slash: it is the folder for all files'],
  ])('with %j says that its destination %s', (changes, message) => {
    expect(problems(batchRequest, { source_uri: 'sftp://from/out/', ...changes })).toEqual([
      `destination_uri: ${message}`,
    ]);
  });
});

describe('an endpoint request', () => {
  const of = (changes: Record<string, unknown>) =>
    problems(endpointRequest, { ...SFTP, ...changes });

  it('has defaults', () => {
    expect(endpointRequest.parse(SFTP)).toMatchObject({
      host: 'files.example.com',
      port: 22,
      base_path: '/',
      host_key_sha256: null,
      accounts: null,
      overwrite: true,
    });
  });

  it.each([
    [{ name: 'Files' }, 'name: invalid_format'],
    [{ name: '-files' }, 'name: invalid_format'],
    [{ name: 'f'.repeat(64) }, 'name: invalid_format'],
    [{ host: 'a b' }, 'host: invalid_format'],
    [{ host: 'user@host' }, 'host: invalid_format'],
    [{ port: 0 }, 'port: too_small'],
    [{ port: 65_536 }, 'port: too_big'],
    [{ port: '22' }, 'port: invalid_type'],
    [{ base_path: 'data' }, 'base_path: invalid_format'],
    [{ base_path: '/data/../etc' }, 'base_path: must not contain ..'],
    [{ host_key_sha256: 'SHA256:abc' }, 'host_key_sha256: invalid_format'],
    [{ max_connections: 0 }, 'max_connections: too_small'],
    [{ accounts: [] }, 'accounts: too_small'],
    [{ accounts: ['UP'] }, 'accounts.0: invalid_format'],
    [{ password: undefined }, 'password: give password or private_key, or both'],
    [{ passphrase: 'x' }, 'passphrase: belongs to a private_key'],
    [{ bucket: 'x' }, 'bucket: unknown'],
    [{ protocol: 'ftp' }, 'protocol: invalid_union'],
  ])('with %j is rejected', (changes, problem) => {
    expect(of(changes)).toEqual([problem]);
  });

  it.each(['*', '*.example.com', 'a,b', 'a..b', '.', 'a;b', '$HOST', `${'a'.repeat(64)}.com`])(
    'names no host %j, of the server or of a hop',
    (host) => {
      const via = { type: 'ssh', host, username: 'u', password: 'p' };
      const problem = 'must be a host name or an address, an IPv6 address without brackets';
      expect(of({ host })).toEqual([`host: ${problem}`]);
      expect(of({ via })).toEqual([`via.host: ${problem}`]);
    },
  );

  it.each([
    ['a.example. com', 'must not contain a blank: remove the one after "a.example."'],
    ['a\u00a0b.example', 'must not contain a blank: remove the one after "a"'],
    [' a.example', 'must not start or end with a blank'],
    ['u:secret@a.example b', 'must be a host name or an address'],
  ])('says where the host %j has a blank, but repeats no password', (host, problem) => {
    const { error } = endpointRequest.safeParse({ ...SFTP, host });
    expect(error?.issues.map(({ message }) => message)).toEqual([problem]);
  });

  it.each(['bank', 'sftp_1.example.com.', 'bücher.example', '10.0.0.1', '2001:db8::1'])(
    'names the host %j',
    (host) => expect(of({ host })).toEqual([]),
  );

  it.each(['ftp://x', 'https://x/\0', 'https://x/\ud800', 'https://x/ y'])(
    'has no endpoint_url such as %j',
    (endpoint_url) => {
      const s3 = {
        name: 's',
        protocol: 's3',
        bucket: 'b',
        access_key_id: 'i',
        secret_access_key: 's',
      };
      expect(problems(endpointRequest, { ...s3, endpoint_url })).not.toEqual([]);
    },
  );

  it('has a key, a password or both to sign in over SFTP', () => {
    const both = { private_key: 'k', password: 'p' };
    expect(of(both)).toEqual([]);
    expect(of({ ...both, passphrase: 'x' })).toEqual([]);
  });

  it('has one way to sign in to Azure', () => {
    const azure = { name: 'a', protocol: 'azure', account: 'acc', container: 'c' };
    expect(problems(endpointRequest, { ...azure, account_key: 'k' })).toEqual([]);
    expect(problems(endpointRequest, { ...azure, sas_token: 's' })).toEqual([]);
    expect(problems(endpointRequest, azure)).toEqual([
      'account_key: give either account_key or sas_token',
    ]);
    expect(problems(endpointRequest, { ...azure, sas_token: 's', account_key: 'k' })).toHaveLength(
      1,
    );
  });
});

describe('a value that cannot form a URL, a header or a path', () => {
  const sound = {
    sftp: { host: 'h', username: 'u', password: 'p' },
    ftps: { host: 'h', username: 'u', password: 'p' },
    s3: { bucket: 'b', access_key_id: 'a', secret_access_key: 's' },
    azure: { account: 'a', container: 'c', account_key: 'k' },
  };
  const ofEndpoint = (protocol: keyof typeof sound, changes: object) =>
    problems(endpointRequest, { name: 'e', protocol, ...sound[protocol], ...changes });

  it.each<[keyof typeof sound, string, string[]]>([
    ['sftp', 'host', ['a b', '[::1]', 'a:1', 'a%b', '1.2.3.999', '\u202eh', 'h\u0001']],
    ['sftp', 'username', ['a\nb', '\u202ea']],
    ['sftp', 'base_path', ['/a\u0001', '/\u2066']],
    ['ftps', 'username', [' ', '\u00a0']],
    ['ftps', 'password', ['a\nb', 'a\r']],
    ['ftps', 'ca_pem', ['-----BEGIN CERTIFICATE-----\nnonsense']],
    ['s3', 'bucket', ['a b', 'a/b', '.', '..', 'é', 'arn:aws:s3:eu-west-1:1:accesspoint/a']],
    ['s3', 'region', ['a b', 'a.b', '-a', 'a_b']],
    ['s3', 'prefix', ['./a', 'a/./b', 'a\\b', '\u0001']],
    ['s3', 'access_key_id', ['a b', 'é', 'a\n']],
    ['s3', 'storage_class', ['a b', 'é']],
    ['s3', 'sse_kms_key_id', ['a b', '\r\n']],
    ['s3', 'endpoint_url', ['http://u:p@h', 'http://h/?a', 'http://h/#a', 'http://h/a\\b']],
    ['azure', 'account', ['a b', 'a/b', 'a?b', 'é', '.']],
    ['azure', 'container', ['a b', 'a/b', 'é', '.', 'a--b']],
  ])('is rejected for %s: %s', (protocol, field, values) => {
    for (const value of values) {
      const [problem = 'accepted', ...others] = ofEndpoint(protocol, { [field]: value });
      expect([value, problem, others]).toEqual([value, expect.stringMatching(`^${field}: `), []]);
    }
  });

  it.each<[keyof typeof sound, string, string[]]>([
    [
      'sftp',
      'host',
      ['::1', 'fe80::1%eth0', '127.0.0.1', 'münchen.example', 'a_b.example.', 'A-1'],
    ],
    ['sftp', 'username', ['me and you', 'é', 'DOMAIN\\me']],
    ['sftp', 'base_path', ['/', '/a b/é', '/./a']],
    ['s3', 'bucket', ['a', 'My_bucket.1', 'tenant:bucket', '_b']],
    ['s3', 'region', ['us-east-1', 'RegionOne', 'auto']],
    ['s3', 'prefix', ['', '/a b/é/', 'a//b', 'a%b?#']],
    ['s3', 'sse_kms_key_id', ['arn:aws:kms:eu-central-1:1:key/2']],
    ['s3', 'endpoint_url', ['http://127.0.0.1:9000/base', 'https://[::1]', 'https://é.example']],
    ['azure', 'account', ['devstoreaccount1', 'Acme-2']],
    ['azure', 'container', ['$web', '$root', 'a-b']],
  ])('is not mistaken for an unusual but valid %s: %s', (protocol, field, values) => {
    for (const value of values) expect(ofEndpoint(protocol, { [field]: value })).toEqual([]);
  });
});

describe('an update of an endpoint', () => {
  const { $defs = {} } = z.toJSONSchema(endpoint);
  const shownOf = (protocol: string) =>
    Object.values($defs).find(
      ({ properties }) =>
        (properties?.protocol as { const: unknown } | undefined)?.const === protocol,
    )?.properties;
  const fields = PROTOCOLS.flatMap(({ name: protocol, fields }) =>
    ['name', 'max_connections', ...Object.keys(fields)].map((name) => ({
      protocol,
      name,
      shown: name in (shownOf(protocol) ?? {}),
    })),
  );

  it('has these secrets, which no answer shows', () => {
    const hidden = fields.filter(({ shown }) => !shown).map(({ name }) => name);
    expect([...new Set(hidden)]).toEqual([
      'password',
      'private_key',
      'passphrase',
      'access_key_id',
      'secret_access_key',
      'account_key',
      'sas_token',
    ]);
  });

  it.each(fields.filter(({ shown }) => !shown))(
    'includes $name of $protocol in its credentials, which no answer shows',
    ({ protocol, name }) => {
      expect(hasCredentials({ protocol, [name]: 'x' } as never)).toBe(true);
    },
  );

  it.each(fields.filter(({ shown }) => shown))(
    'does not include $name of $protocol in its credentials, which answers show',
    ({ protocol, name }) => {
      expect(hasCredentials({ protocol, [name]: protocol } as never)).toBe(false);
    },
  );
});

describe('a key request', () => {
  it('has defaults', () => {
    expect(keyRequest.parse({ name: 'ci', scopes: ['admin'] })).toEqual({
      name: 'ci',
      scopes: ['admin'],
      account: 'acc_default',
      expires_in: '90d',
    });
  });

  it.each([
    [{ scopes: [] }, 'scopes: too_small'],
    [{ scopes: ['root'] }, 'scopes.0: invalid_value'],
    [{ name: '' }, 'name: too_small'],
    [{ name: ' \u3000' }, 'name: must not be blank'],
    [
      { name: '\u001b[2Jci' },
      'name: must not contain control characters or characters that reorder or hide text',
    ],
    [
      { name: 'ci\u202e' },
      'name: must not contain control characters or characters that reorder or hide text',
    ],
    [{ account: 'Acc' }, 'account: invalid_format'],
    [{ secret: 'x' }, 'secret: unknown'],
    [{ expires_in: '-1d' }, 'expires_in: invalid_format'],
    [{ expires_in: 'soon' }, 'expires_in: invalid_format'],
    [{ expires_in: '' }, 'expires_in: invalid_format'],
  ])('with %j is rejected', (changes, problem) => {
    expect(problems(keyRequest, { name: 'ci', scopes: ['admin'], ...changes })).toEqual([problem]);
  });
});

describe('a webhook request', () => {
  it.each(['ftp://x.example', 'https:x.example', 'https:///x.example', 'https:/x.example', '//x'])(
    'has no url such as %s',
    (url) => {
      const request = { url, events: ['transfer.failed'] };
      expect(problems(webhookRequest, request)).toEqual(['url: must be an https URL']);
    },
  );
});
