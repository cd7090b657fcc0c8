import { expect, test } from 'vitest';
import { explainError } from '../../../src/adapters/files/system-error.ts';

const error = (message: string, code?: string) => Object.assign(new Error(message), { code });

test.each([
  [
    error('connect ECONNREFUSED 127.0.0.1:22', 'ECONNREFUSED'),
    'connection refused: nothing listens at this address and port',
  ],
  [
    Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' }),
    'connection refused: nothing listens at this address and port',
  ],
  [error('getaddrinfo ENOTFOUND nowhere.invalid', 'ENOTFOUND'), 'this host name has no address'],
  [
    error('connect EMFILE 127.0.0.1:22', 'EMFILE'),
    'this process of Waybill has too many open files: raise its limit (ulimit -n)',
  ],
  [error('No space left on device'), 'No space left on device'],
  [error('', 'EODD'), 'EODD'],
])('%s is explained', (given, words) => {
  expect(explainError(given)).toBe(words);
});
