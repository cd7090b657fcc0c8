import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DomainError } from '../../src/domain/errors.ts';
import type { EndpointSettings } from '../../src/domain/protocols/index.ts';
import { fileName, type Matchable, matchEndpoint, parseTransferUri } from '../../src/domain/uri.ts';
import { sftpSettings } from '../support/domain/samples.ts';

const parse = (text: string) => parseTransferUri(text, 'source_uri');

function refusal(text: string): DomainError {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
  throw new Error(`${text} was taken`);
}

describe('a transfer URI', () => {
  it.each([
    [
      'sftp://host/a/b.csv',
      { protocol: 'sftp', authority: 'host', username: null, port: null, path: '/a/b.csv' },
    ],
    ['SFTP://Files.Example.COM./a', { authority: 'files.example.com', path: '/a' }],
    ['sftp://me@host:2222/a', { username: 'me', port: 2222 }],
    ['sftp://me%40corp@host/a', { username: 'me@corp' }],
    ['sftp://me@corp@host/a', { username: 'me@corp', authority: 'host' }],
    ['ftps://[2001:DB8::1]:990/a', { protocol: 'ftps', authority: '[2001:db8::1]', port: 990 }],
    ['sftp://host', { path: '/' }],
    ['sftp://host/dir/', { path: '/dir/' }],
    ['s3://bucket/a/key', { protocol: 's3', authority: 'bucket', path: '/a/key' }],
    [
      'azure://account/container/blob',
      { protocol: 'azure', authority: 'account', path: '/container/blob' },
    ],
    ['sftp://host/a+b%2Bc', { path: '/a+b+c' }],
    ['sftp://host/a%20b c', { path: '/a b c' }],
    ['sftp://host/100%25', { path: '/100%' }],
    ['sftp://host/what%3F%23', { path: '/what?#' }],
    ['sftp://host/%252e%252e/a', { path: '/%2e%2e/a' }],
    ['sftp://host/.../..a/a..', { path: '/.../..a/a..' }],
    ['sftp://host/%C3%A4/ü', { path: '/ä/ü' }],
    ['sftp://host/a:b@c', { path: '/a:b@c' }],
    ['sftp://host/می\u200cروم', { path: '/می\u200cروم' }],
    ['sftp://host/%F0%9F%91%A9%E2%80%8D%F0%9F%92%BB', { path: '/👩\u200d💻' }],
  ])('%s', (text, expected) => {
    expect(parse(text)).toMatchObject(expected);
  });

  it.each([
    ['', 'must start with'],
    ['/a/b', 'must start with'],
    ['http://host/a', 'must start with'],
    ['sftp:/host/a', 'must start with'],
    [' sftp://host/a', 'must start with'],
    ['constructor://host/a', 'must start with'],
    ['sftp:///a', 'must name a host'],
    ['sftp://@/a', 'must name a host'],
    ['sftp://:22/a', 'must name a host'],
    ['sftp://::1/a', 'must name a host'],
    ['sftp://[fe80::1%25eth0]/a', 'must not name the zone'],
    ['sftp://me@[fe80::1%eth0]:22/a', 'must not name the zone'],
    ['sftp://ho st/a', 'without spaces'],
    ['sftp://h%6Fst/a', 'without spaces or percent'],
    ['sftp://host:/a', 'port from 1 to 65535'],
    ['sftp://host:0/a', 'port from 1 to 65535'],
    ['sftp://host:65536/a', 'port from 1 to 65535'],
    ['s3://bucket:443/a', 'must not name a port'],
    ['azure://me@account/c/b', 'must not name a user'],
    ['sftp://host/a?b', 'must not contain a query or a fragment'],
    ['sftp://host/a#b', 'must not contain a query or a fragment'],
    ['sftp://host?a', 'must not contain a query or a fragment'],
    ['sftp://host/../a', 'must not contain . or ..'],
    ['sftp://host/a/..', 'must not contain . or ..'],
    ['sftp://host/./a', 'must not contain . or ..'],
    ['sftp://host/%2e%2E/a', 'must not contain . or ..'],
    ['sftp://host/a%2F..%2Fb', 'encoded slash'],
    ['sftp://host/..\\a', 'backslash'],
    ['sftp://host/a%5Cb', 'backslash'],
    ['sftp://host\\@other/a', 'backslash'],
    ['sftp://host//a', 'empty segment'],
    ['sftp://host/a%2F%2Fb', 'encoded slash'],
    ['sftp://host/a\0', 'control characters'],
    ['sftp://host/a%00', 'control characters'],
    ['sftp://host/a%0D%0ADELE b', 'control characters'],
    ['sftp://host/a\u202egpj.exe', 'control characters'],
    ['sftp://host/a%E2%80%AEgpj.exe', 'control characters'],
    ['sftp://host/a%ZZ', 'percent-encoded UTF-8'],
    ['sftp://host/100%', 'percent-encoded UTF-8'],
    ['sftp://host/%FF', 'percent-encoded UTF-8'],
    ['sftp://me%@host/a', 'percent-encoded UTF-8'],
    [`sftp://host/${'ä'.repeat(2_043)}`, 'at most 4096 bytes'],
  ])('%j is rejected', (text, reason) => {
    const { code, message, details } = refusal(text);
    expect(code).toBe('validation_failed');
    expect(message).toContain(reason);
    expect(details.errors).toEqual([{ field: 'source_uri', code, message }]);
  });

  it.each([
    'sftp://me:hunter2@host/a',
    'sftp://:hunter2@host/a',
    'sftp://me:@host/a',
    's3://me:hunter2@bucket/a',
    'ftps://me:hun@ter2@host:21/a',
  ])('%s: the password is rejected and not repeated', (text) => {
    const error = refusal(text);
    expect(error.code).toBe('credentials_in_uri');
    expect(JSON.stringify([error.message, error.details, error.stack])).not.toContain('ter2');
  });

  it('throws only DomainErrors, and never repeats its input', () => {
    const part = fc.oneof(
      fc.constantFrom(
        'sftp',
        'ftps',
        's3',
        'azure',
        '://',
        '/',
        '..',
        '%2e',
        '%',
        ':',
        '@',
        '?',
        '#',
        '\\',
        '[',
        ']',
        '::1',
        '22',
        '\0',
        '\u202e',
        'host',
      ),
      fc.string({ unit: 'binary', maxLength: 5 }),
    );
    const secret = 'kN4v9wQe';
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 15 }),
        fc.nat(15),
        fc.boolean(),
        (parts, at, known) => {
          const text = (known ? 'sftp://' : '') + parts.toSpliced(at, 0, secret).join('');
          try {
            const { path } = parse(text);
            expect(path.startsWith('/')).toBe(true);
            expect(path.split('/')).not.toContain('..');
          } catch (error) {
            if (!(error instanceof DomainError)) throw error;
            expect(JSON.stringify([error.message, error.details])).not.toContain(secret);
          }
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('returns every path that was percent-encoded into it', () => {
    const segment = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 6 })
      .filter((text) => text.isWellFormed() && !/[/\\]|^\.\.?$|[\p{C}\u2028\u2029]/u.test(text));
    fc.assert(
      fc.property(fc.array(segment, { minLength: 1, maxLength: 5 }), (segments) => {
        const uri = parse(`sftp://host/${segments.map(encodeURIComponent).join('/')}`);
        expect(uri.path).toBe(`/${segments.join('/')}`);
        expect(fileName(uri)).toBe(segments.at(-1));
      }),
    );
  });

  it('has the last segment as its file name', () => {
    expect(fileName(parse('s3://bucket/a/b%20c.csv'))).toBe('b c.csv');
    expect(fileName(parse('sftp://host/a/'))).toBe('');
    expect(fileName(parse('sftp://host'))).toBe('');
  });
});

describe('the endpoint of a URI', () => {
  const s3 = (bucket: string, prefix = ''): EndpointSettings => ({
    protocol: 's3',
    bucket,
    prefix,
    region: 'us-east-1',
    endpoint_url: null,
    force_path_style: false,
    ca_pem: null,
    storage_class: null,
    sse: null,
    sse_kms_key_id: null,
  });
  const azure = (prefix = ''): EndpointSettings => ({
    protocol: 'azure',
    account: 'account',
    container: 'container',
    prefix,
    endpoint_url: null,
    ca_pem: null,
  });
  const ftps = (tls: 'explicit' | 'implicit', port: number): EndpointSettings => ({
    protocol: 'ftps',
    host: 'host',
    port,
    base_path: '/',
    username: 'u',
    tls,
    ca_pem: null,
  });
  const named = (
    name: string,
    settings: EndpointSettings,
    accounts: string[] | null = null,
  ): Matchable => ({ name, settings, accounts });
  const sftp = (name: string, changes: Parameters<typeof sftpSettings>[0]) =>
    named(name, sftpSettings({ host: 'host', ...changes }));

  /** Returns `NAME:PATH` of the match; null for none. */
  function match(uri: string, endpoints: Matchable[], account = 'acc_default'): string | null {
    const found = matchEndpoint(parse(uri), endpoints, account);
    return found && `${found.endpoint.name}:${found.path}`;
  }

  it.each([
    [
      'a name takes precedence over a host',
      'sftp://host/a',
      [sftp('x', {}), sftp('host', { base_path: '/base' })],
      'host:/base/a',
    ],
    [
      'the letter case of a name does not matter',
      'sftp://FILES/a',
      [sftp('files', {})],
      'files:/a',
    ],
    [
      'a name with a port is a host',
      'sftp://host:22/a',
      [sftp('host', { base_path: '/base' }), sftp('x', {})],
      'x:/a',
    ],
    ['a name of another protocol does not match', 'ftps://files/a', [sftp('files', {})], null],
    [
      'a path below a name lies below its base path',
      'sftp://files/a/b',
      [sftp('files', { base_path: '/base/' })],
      'files:/base/a/b',
    ],
    [
      'the longest base path wins',
      'sftp://host/a/b/c',
      [sftp('x', {}), sftp('z', { base_path: '/a/b' }), sftp('y', { base_path: '/a' })],
      'z:/a/b/c',
    ],
    [
      'a base path ends at a segment',
      'sftp://host/data2/a',
      [sftp('x', { base_path: '/data' })],
      null,
    ],
    ['a base path is not a file', 'sftp://host/data', [sftp('x', { base_path: '/data' })], null],
    [
      'a base path may end in a slash',
      'sftp://host/data/a',
      [sftp('x', { base_path: '/data/' })],
      'x:/data/a',
    ],
    [
      'the letter case of a base path matters',
      'sftp://host/Data/a',
      [sftp('x', { base_path: '/data' })],
      null,
    ],
    [
      'the letter case of a host does not matter',
      'sftp://HOST/a',
      [sftp('x', { host: 'Host' })],
      'x:/a',
    ],
    ['a host may end in a dot', 'sftp://host./a', [sftp('x', { host: 'host.' })], 'x:/a'],
    ['another host', 'sftp://host.evil/a', [sftp('x', {})], null],
    ['the default port', 'sftp://host:22/a', [sftp('x', {})], 'x:/a'],
    ['another port', 'sftp://host/a', [sftp('x', { port: 2222 })], null],
    ['another port', 'sftp://host:2222/a', [sftp('x', { port: 2222 })], 'x:/a'],
    ['the user', 'sftp://waybill@host/a', [sftp('x', {})], 'x:/a'],
    ['another user', 'sftp://root@host/a', [sftp('x', {})], null],
    [
      'another user than that of the named endpoint',
      'sftp://root@files/a',
      [sftp('files', {})],
      null,
    ],
    ['IPv6 in brackets', 'sftp://[2001:DB8::1]/a', [sftp('x', { host: '2001:db8::1' })], 'x:/a'],
    ['IPv6 in full', 'sftp://[2001:db8:0:0::0001]/a', [sftp('x', { host: '2001:DB8::1' })], 'x:/a'],
    [
      'a name in Punycode',
      'sftp://xn--bcher-kva.example/a',
      [sftp('x', { host: 'bücher.example' })],
      'x:/a',
    ],
    [
      'a name in Unicode',
      'sftp://BÜCHER.example./a',
      [sftp('x', { host: 'xn--bcher-kva.example' })],
      'x:/a',
    ],
    ['a name that no URL can have', 'sftp://ü,b/a', [sftp('x', { host: 'ü,b' })], 'x:/a'],
    ['IPv6 with a port', 'sftp://[::1]:2222/a', [sftp('x', { host: '[::1]', port: 2222 })], 'x:/a'],
    ['FTPS, explicit', 'ftps://host/a', [named('e', ftps('explicit', 21))], 'e:/a'],
    [
      'FTPS, implicit by its port',
      'ftps://host:990/a',
      [named('e', ftps('explicit', 21)), named('i', ftps('implicit', 990))],
      'i:/a',
    ],
    ['FTPS, implicit without a port', 'ftps://host/a', [named('i', ftps('implicit', 990))], 'i:/a'],
    ['a bucket', 's3://bucket/a/b', [named('x', s3('bucket'))], 'x:a/b'],
    ['an uppercase bucket', 's3://Bucket/a', [named('x', s3('Bucket'))], 'x:a'],
    ['another bucket', 's3://bucket2/a', [named('x', s3('bucket'))], null],
    ['a prefix by bucket', 's3://bucket/in/a', [named('x', s3('bucket', 'in/'))], 'x:in/a'],
    ['a key outside the prefix', 's3://bucket/inbox/a', [named('x', s3('bucket', 'in'))], null],
    ['a prefix by name', 's3://x/a', [named('x', s3('bucket', 'in/'))], 'x:in/a'],
    ['a container', 'azure://account/container/a', [named('x', azure())], 'x:a'],
    ['another container', 'azure://account/container2/a', [named('x', azure())], null],
    ['a container without a blob', 'azure://account/container', [named('x', azure())], null],
    [
      'a prefix in a container',
      'azure://account/container/in/a',
      [named('x', azure('/in'))],
      'x:in/a',
    ],
    ['a container by name', 'azure://x/a', [named('x', azure('in'))], 'x:in/a'],
  ])('%s: %s', (_, uri, endpoints, expected) => {
    expect(match(uri, endpoints)).toBe(expected);
  });

  it('is one that the account may use', () => {
    const endpoints = [
      named('files', sftpSettings({ host: 'host', base_path: '/base' }), ['acc_a']),
      sftp('open', {}),
    ];
    expect(match('sftp://files/a', endpoints, 'acc_a')).toBe('files:/base/a');
    expect(match('sftp://files/a', endpoints, 'acc_b')).toBeNull();
    expect(match('sftp://host/base/a', endpoints, 'acc_a')).toBe('files:/base/a');
    expect(match('sftp://host/base/a', endpoints, 'acc_b')).toBe('open:/base/a');
  });
});
