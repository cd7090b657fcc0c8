import { expect, test } from 'vitest';
import { FileError } from '../../../../src/adapters/files/port.ts';
import { connectionError, fileError } from '../../../../src/adapters/files/sftp/errors.ts';
import { causeOf } from '../../../../src/adapters/files/sftp/failure-cause.ts';
import type { Connection } from '../../../../src/adapters/files/sftp/session.ts';
import { explainError } from '../../../../src/adapters/files/system-error.ts';

const error = (message: string, given: object = {}) => Object.assign(new Error(message), given);

test.each([
  [error('No such file', { code: 2 }), 'source', 'source_not_found'],
  [error('No such file', { code: 2 }), 'destination', 'permission_denied'],
  [error('Permission denied', { code: 3 }), 'source', 'permission_denied'],
  [error('Failure', { code: 4 }), 'destination', 'internal_error'],
  [error('No space left on device', { code: 4 }), 'destination', 'disk_full'],
  [error('Disk quota exceeded', { code: 4 }), 'destination', 'disk_full'],
  [error('File too large', { code: 4 }), 'destination', 'file_too_large'],
  [error('Read-only file system', { code: 4 }), 'destination', 'permission_denied'],
  [error('Operation unsupported', { code: 8 }), 'destination', 'permission_denied'],
  [error('unexpected EOF', { code: 4 }), 'source', 'source_changed'],
  [error('open: file name too long', { code: 4 }), 'source', 'source_not_found'],
  [error('File name too long', { code: 4 }), 'destination', 'permission_denied'],
  [error('connect ECONNREFUSED', { code: 'ECONNREFUSED' }), 'source', 'connection_failed'],
  [error('connect EHOSTUNREACH', { code: 'EHOSTUNREACH' }), 'source', 'connection_failed'],
  [error('read ETIMEDOUT', { code: 'ETIMEDOUT', level: 'client-socket' }), 'source', 'timeout'],
  [
    error('read ECONNRESET', { code: 'ECONNRESET', level: 'client-socket' }),
    'source',
    'connection_failed',
  ],
  [error('No response from server'), 'source', 'connection_failed'],
] as const)('%s on the %s side is %s', (given, side, code) => {
  expect(fileError(given, 'transfer', '/a/path', side)).toMatchObject({
    name: 'FileError',
    code,
    step: 'transfer',
    message: `/a/path: ${explainError(given)}`,
  });
});

test.each([
  ['/out/sales-quota.csv: Failure', '/out/sales-quota.csv', 'internal_error'],
  ['rename(/srv/sftp/permission/a.csv): Failure', '/permission/a.csv', 'internal_error'],
  ["Can't write '/read-only/.a.csv.part'", '/read-only/a.csv', 'internal_error'],
  ['/srv/name too long/a.csv: Failure', '/name too long/a.csv', 'internal_error'],
  ['/srv/sftp/out/a.csv: Disk quota exceeded', '/out/a.csv', 'disk_full'],
  ['Permission denied: /out/a.csv', '/out/a.csv', 'permission_denied'],
] as const)('the words of the path in %s do not change the error', (words, subject, code) => {
  const given = error(words, { code: 4 });
  expect(fileError(given, 'transfer', subject, 'destination')).toMatchObject({
    code,
    message: `${subject}: ${words}`,
  });
});

test.each([
  error('All configured authentication methods failed', { level: 'client-authentication' }),
  error('Too many authentication failures', { code: 2 }),
  error('Cannot parse privateKey: Encrypted OpenSSH private key detected, but no passphrase given'),
])('%s is reported with one message', (given) => {
  expect(fileError(connectionError(given), 'connect', 'host:22')).toMatchObject({
    code: 'auth_failed',
    step: 'sign_in',
    message: 'Authentication failed',
  });
});

test('the reason of a disconnect is not mistaken for the status of a request', () => {
  const disconnect = connectionError(error('protocol error', { code: 2 }));
  expect(fileError(disconnect, 'open', '/a/path')).toMatchObject({ code: 'connection_failed' });
});

const LONG_PATH = `/a/${'x'.repeat(256)}/b`;

test.each([
  ['commit', 'Disk quota exceeded', 'disk_full'],
  ['commit', 'open: file name too long', 'permission_denied'],
  ['transfer', 'Failure', 'internal_error'],
] as const)('in the step %s, "%s" is not explained by a long name', (step, words, code) => {
  expect(fileError(error(words, { code: 4 }), step, LONG_PATH, 'destination')).toMatchObject({
    code,
    message: `${LONG_PATH}: ${words}`,
  });
});

test.each([
  ['a bad message', '/a/path', 5, 'permission_denied'],
  ['the failure of a folder of 256 letters', LONG_PATH, 4, 'permission_denied'],
  ['the failure of 128 letters of two bytes', `/a/${'é'.repeat(128)}`, 4, 'permission_denied'],
  ['the failure of 255 letters', `/a/${'x'.repeat(255)}/b`, 4, 'internal_error'],
] as const)('%s is an error of the name, if it is too long', (_, path, status, code) => {
  const advice = code === 'permission_denied' ? ': the name may be too long' : '';
  const given = error('said', { code: status });
  expect(fileError(given, 'commit', path, 'destination')).toMatchObject({
    code,
    message: `${path}: said${advice}`,
  });
});

test.each([
  ['Failure', 'transfer', 'disk_full'],
  ['Failure', 'commit', undefined],
  ['File too large', 'transfer', undefined],
] as const)('%s at the step %s of a server that describes no disk', async (words, step, code) => {
  const connection = { extensions: new Set<string>() } as unknown as Connection;
  const cause = await causeOf(connection, error(words, { code: 4 }), step, '/a/path');
  expect(cause?.code).toBe(code);
});

test('a FileError stays as it is', () => {
  const given = new FileError('source_changed', 'verify', 'changed');
  expect(fileError(given, 'transfer', '/a/path')).toBe(given);
});
