import { FTPError } from 'basic-ftp';
import { expect, test } from 'vitest';
import { fileError, statError } from '../../../../src/adapters/files/ftps/errors.ts';
import { explainError } from '../../../../src/adapters/files/system-error.ts';

const reply = (message: string) => new FTPError({ code: Number(message.slice(0, 3)), message });
const failure = (message: string, code?: string) => Object.assign(new Error(message), { code });

test.each([
  [reply('550 /a: No such file or directory'), 'source', 'source_not_found'],
  [reply('550 /a: not a regular file'), 'source', 'source_not_found'],
  [reply('550 /a: Too many levels of symbolic links'), 'source', 'source_not_found'],
  [reply('550 /a: Too many levels of symbolic links'), 'destination', 'permission_denied'],
  [reply('550 Failed to open file.'), 'source', 'permission_denied'],
  [reply('550 /a: No such file or directory'), 'destination', 'permission_denied'],
  [reply('553 Could not create file.'), 'destination', 'permission_denied'],
  [reply('452 Insufficient storage'), 'destination', 'disk_full'],
  [reply('552 Exceeded storage allocation'), 'destination', 'disk_full'],
  [reply('550 Disk quota exceeded'), 'destination', 'disk_full'],
  [reply('426 Failure writing to local file.'), 'destination', 'disk_full'],
  [reply('451 Transfer aborted. Input/output error'), 'destination', 'disk_full'],
  [reply('451 Transfer aborted. Input/output error'), 'source', 'connection_failed'],
  [reply('552 File too large'), 'destination', 'file_too_large'],
  [reply('426 Transfer aborted'), 'source', 'connection_failed'],
  [
    reply('550 The process cannot access the file because it is being used by another process.'),
    'source',
    'connection_failed',
  ],
  [reply('550 Sharing violation'), 'destination', 'connection_failed'],
  [reply('421 Timeout'), 'source', 'connection_failed'],
  [reply('421 There are too many connected users'), 'source', 'connection_failed'],
  [reply('522 Session reuse required'), 'source', 'tls_error'],
  [reply('502 Not implemented'), 'source', 'internal_error'],
  [failure('read ECONNRESET', 'ECONNRESET'), 'source', 'connection_failed'],
  [
    failure('Server sent FIN packet unexpectedly, closing connection.'),
    'source',
    'connection_failed',
  ],
  [failure('connect ETIMEDOUT', 'ETIMEDOUT'), 'source', 'timeout'],
  [
    failure('unexpected eof while reading', 'ERR_SSL_UNEXPECTED_EOF_WHILE_READING'),
    'source',
    'connection_failed',
  ],
] as const)('%s on the %s side is %s', (given, side, code) => {
  expect(fileError(given, 'transfer', '/a', side)).toMatchObject({
    name: 'FileError',
    code,
    step: 'transfer',
    message: `/a: ${explainError(given)}`,
  });
});

test('a failed TLS negotiation and a broken TLS connection have different errors', () => {
  const given = failure('wrong version number', 'ERR_SSL_WRONG_VERSION_NUMBER');
  expect(fileError(given, 'connect', '/a')).toMatchObject({ code: 'tls_error', step: 'connect' });
});

test('a rejected sign-in has one message, whatever the server says', () => {
  expect(fileError(reply('530 User nobody is unknown'), 'open', '/a')).toMatchObject({
    code: 'auth_failed',
    step: 'sign_in',
    message: 'Authentication failed',
  });
});

test('an answer of several lines becomes one line', () => {
  expect(fileError(reply('550-No\n550 No such file'), 'open', '/a').message).toBe(
    '/a: 550-No 550 No such file',
  );
});

test.each([
  ['550 Could not get file size.', 'source_not_found'],
  ["550 Can't check for file existence", 'source_not_found'],
  ["550 Couldn't open the file or directory", 'source_not_found'],
  [
    "550 Can't check for file existence\n550 Can't change directory to /a: Permission denied",
    'permission_denied',
  ],
  ['550 Access is denied.', 'permission_denied'],
  ['532 Need an account', 'permission_denied'],
  ['451 Try later', 'connection_failed'],
])("the path error %s, the server's only answer for the path, is %s", (words, code) => {
  expect(statError(reply(words), 'open', '/a')).toMatchObject({
    code,
    step: 'open',
    message: `/a: ${words.replace('\n', ' ')}`,
  });
});

test.each([
  [
    '550 /out/sales-quota.csv: No such file or directory',
    '/out/sales-quota.csv',
    'source',
    'source_not_found',
  ],
  [
    '550 /srv/ftp/out/sales quota.csv: No such file or directory',
    '/out/sales quota.csv',
    'source',
    'source_not_found',
  ],
  [
    "550 Can't open '/quota/a.csv': Permission denied",
    '/base/quota/a.csv',
    'source',
    'permission_denied',
  ],
  ['550 C:\\ftp\\quota\\a.csv not accessible', '/quota/a.csv', 'source', 'permission_denied'],
  [
    '553 /quota/.a.csv.txr_1.clm_1.part: Permission denied',
    '/quota/a.csv',
    'destination',
    'permission_denied',
  ],
  [
    '550 Permission denied on /too many/a.csv',
    '/too many/a.csv',
    'destination',
    'permission_denied',
  ],
  ['550 /out/a.csv: Disk quota exceeded', '/out/a.csv', 'destination', 'disk_full'],
  ['550 Disk quota exceeded: /out/a.csv', '/out/a.csv', 'destination', 'disk_full'],
] as const)('the words of the path in %s do not change the error', (words, subject, side, code) => {
  expect(fileError(reply(words), 'transfer', subject, side)).toMatchObject({
    code,
    message: `${subject}: ${words}`,
  });
});

test('a path with words about permissions does not count as unreadable', () => {
  const given = reply(
    "550 Can't check for file existence\n550 Can't change directory to /no permission: what it is",
  );
  expect(statError(given, 'open', '/no permission')).toMatchObject({ code: 'source_not_found' });
});
