import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { ENDPOINT_FIELDS, endpointRequest, hasCredentials, keyRequest, transferRequest } from '../../src/commands/requests.ts';
import { endpoint } from '../../src/http/administration/endpoint-schemas.ts';

const TRANSFER = { source_uri: 'sftp://from/a.csv', destination_uri: 'sftp://to/in/' };
const SFTP = { name: 'files', protocol: 'sftp', host: 'Files.Example.com', username: 'me', password: 'secret' };

/** `field: code or message` of all that is wrong; empty where nothing is. */
function problems(schema: z.ZodType, value: unknown): string[] {
  const { error } = schema.safeParse(value);
  return (error?.issues ?? []).flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => `${[...issue.path, key].join('.')}: unknown`);
    const code = issue.code === 'custom' ? (issue.params?.code ?? issue.message) : issue.code;
    return [`${issue.path.join('.')}: ${code}`];
  });
}
const ofTransfer = (changes: Record<string, unknown>) => problems(transferRequest, { ...TRANSFER, ...changes });
const ofMetadata = (json: string) => ofTransfer({ metadata: JSON.parse(json) as unknown });

describe('a transfer request', () => {
  it('has defaults', () => {
    expect(transferRequest.parse(TRANSFER)).toEqual({ ...TRANSFER, priority: 'normal', notify_on_complete: false, metadata: {} });
  });

  it('is told all that is wrong with it at once', () => {
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
    expect(problems(transferRequest, {})).toEqual(['source_uri: invalid_type', 'destination_uri: invalid_type']);
  });

  it.each([null, [], 'text', 1, undefined])('is an object, not %j', (value) => {
    expect(problems(transferRequest, value)).toEqual([': invalid_type']);
  });

  it.each(['sftp://from', 'sftp://from/', 'sftp://from/dir/', 's3://bucket'])('names a file as its source, not %s', (source_uri) => {
    expect(ofTransfer({ source_uri })).toEqual(['source_uri: must name a file: it ends in a slash or names no path']);
  });

  it.each(['__proto__', 'constructor', 'prototype'])('does not take the metadata key %s', (key) => {
    expect(ofMetadata(`{"a":"b","${key}":"x"}`)).toEqual(['metadata: must not use the keys __proto__, constructor, prototype']);
    expect(ofMetadata(`{"a":"b","${key}":{"toString":"x"}}`)[0]).toContain('metadata: must not use');
    expect(problems(transferRequest, JSON.parse(`{"source_uri":"sftp://a/b","destination_uri":"sftp://a/c","${key}":{}}`))).toEqual([
      `${key}: unknown`,
    ]);
  });

  it('has at most ten metadata keys, of at most 256 characters each', () => {
    const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`key${i}`, 'value']));
    expect(ofTransfer({ metadata: keys(10) })).toEqual([]);
    expect(ofTransfer({ metadata: keys(11) })).toEqual(['metadata: must have at most 10 keys']);
    expect(ofTransfer({ metadata: { a: 'x'.repeat(256), ['k'.repeat(256)]: '' } })).toEqual([]);
    expect(ofTransfer({ metadata: { a: '\u{1f4e6}'.repeat(256), ['\u{1f4e6}'.repeat(256)]: '' } })).toEqual([]);
    expect(ofTransfer({ metadata: { a: 'x'.repeat(257) } })).toEqual(['metadata.a: must be at most 256 characters long']);
    expect(ofTransfer({ metadata: { '': 'x' } })).toEqual(['metadata.: invalid_key']);
    expect(ofTransfer({ metadata: { ['k'.repeat(257)]: '' } })).toEqual([`metadata.${'k'.repeat(257)}: invalid_key`]);
  });

  it.each([null, [], 'text', ['a']])('has metadata that is an object, not %j', (metadata) => {
    expect(ofTransfer({ metadata })).toEqual(['metadata: invalid_type']);
  });

  it.each(['\\u0000', '\\ud800', '\\udc00x'])('has no NUL and no half surrogate anywhere: %s', (half) => {
    const message = 'must not contain a NUL character or an unpaired surrogate';
    expect(ofMetadata(`{"a":"x${half}"}`)).toEqual([`metadata.a: ${message}`]);
    expect(ofMetadata(`{"x${half}":"a"}`)[0]).toMatch(/^metadata\..*: invalid_key$/);
    expect(ofTransfer(JSON.parse(`{"destination_uri":"sftp://to/x${half}"}`))[0]).toContain('destination_uri: ');
  });
});

describe('an endpoint request', () => {
  const of = (changes: Record<string, unknown>) => problems(endpointRequest, { ...SFTP, ...changes });

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
    [{ password: undefined }, 'password: give either password or private_key'],
    [{ private_key: 'x' }, 'password: give either password or private_key'],
    [{ passphrase: 'x' }, 'passphrase: belongs to a private_key'],
    [{ bucket: 'x' }, 'bucket: unknown'],
    [{ protocol: 'ftp' }, 'protocol: invalid_union'],
  ])('%j is refused', (changes, problem) => {
    expect(of(changes)).toEqual([problem]);
  });

  it.each(['ftp://x', 'https://x/\0', 'https://x/\ud800', 'https://x/ y'])('has no endpoint_url such as %j', (endpoint_url) => {
    const s3 = { name: 's', protocol: 's3', bucket: 'b', access_key_id: 'i', secret_access_key: 's' };
    expect(problems(endpointRequest, { ...s3, endpoint_url })).not.toEqual([]);
  });

  it('signs in to Azure in one way', () => {
    const azure = { name: 'a', protocol: 'azure', account: 'acc', container: 'c' };
    expect(problems(endpointRequest, { ...azure, account_key: 'k' })).toEqual([]);
    expect(problems(endpointRequest, { ...azure, sas_token: 's' })).toEqual([]);
    expect(problems(endpointRequest, azure)).toEqual(['account_key: give either account_key or sas_token']);
    expect(problems(endpointRequest, { ...azure, sas_token: 's', account_key: 'k' })).toHaveLength(1);
  });
});

describe('an update of an endpoint', () => {
  const fields = endpoint.options.flatMap(({ shape }) => {
    const protocol = shape.protocol.value;
    return Object.keys(ENDPOINT_FIELDS[protocol].shape).map((name) => ({ protocol, name, shown: name in shape }));
  });

  it.each(fields.filter(({ shown }) => !shown))(
    'brings credentials with $name of $protocol, which no answer shows',
    ({ protocol, name }) => {
      expect(hasCredentials({ protocol, [name]: 'x' } as never)).toBe(true);
    },
  );

  it.each(fields.filter(({ shown }) => shown))('brings none with $name of $protocol, which answers show', ({ protocol, name }) => {
    expect(hasCredentials({ protocol, [name]: protocol } as never)).toBe(false);
  });
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
    [{ account: 'Acc' }, 'account: invalid_format'],
    [{ secret: 'x' }, 'secret: unknown'],
    [{ expires_in: '-1d' }, 'expires_in: invalid_format'],
    [{ expires_in: 'soon' }, 'expires_in: invalid_format'],
    [{ expires_in: '' }, 'expires_in: invalid_format'],
  ])('%j is refused', (changes, problem) => {
    expect(problems(keyRequest, { name: 'ci', scopes: ['admin'], ...changes })).toEqual([problem]);
  });
});
