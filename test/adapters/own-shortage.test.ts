import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { shortageOf } from '../../src/adapters/own-shortage.ts';
import { isStoreUnavailable } from '../../src/adapters/unavailable.ts';

const OPEN_FILES = 'this process of Waybill has too many open files: raise its limit (ulimit -n)';

const error = (code: string, message = code, more = {}) =>
  Object.assign(new Error(message), { code, ...more });

test.each([
  ['of a connection', error('EMFILE', 'connect EMFILE 192.0.2.1:22'), OPEN_FILES],
  ['of its cause', new Error('lost', { cause: error('EMFILE') }), OPEN_FILES],
  [
    'of the first address',
    Object.assign(new AggregateError([error('EMFILE'), error('ECONNREFUSED')]), { code: 'EMFILE' }),
    OPEN_FILES,
  ],
  [
    'of a thread that cannot start',
    error('ERR_WORKER_INIT_FAILED', 'Worker initialization failure: EMFILE'),
    OPEN_FILES,
  ],
  [
    'of memory',
    error('ENOBUFS'),
    'the machine that runs Waybill has no memory left for connections',
  ],
  ['of a server that refuses', error('ECONNREFUSED'), null],
  ['of a name that has no address', error('ENOTFOUND', '', { syscall: 'getaddrinfo' }), null],
  ['of a server that says so', new Error('Too many open files'), null],
])('the error %s says what this process lacks, or nothing', (_, given, words) => {
  expect(shortageOf(given)).toBe(words);
});

test('a store that no connection could be opened to is unavailable', () => {
  expect(isStoreUnavailable(error('EMFILE', 'connect EMFILE 127.0.0.1:5432'))).toBe(true);
});

/** Uses up the open files of its process, then does what needs one more. */
const WITHOUT_FILES = `
  const { openSync } = await import('node:fs');
  const { lookup, resolve4 } = await import('node:dns/promises');
  const { shortageOf } = await import('./src/adapters/own-shortage.ts');
  const { createWebhookSender } = await import('./src/adapters/webhooks/send.ts');
  const sender = createWebhookSender({ allowedCidrs: ['127.0.0.0/8'] });
  const send = (url) => sender.send({ url, headers: {}, body: '' });
  const lookUp = await lookup('localhost');
  try { for (;;) openSync('/dev/null'); } catch {}
  const codes = {};
  for (const [name, work] of Object.entries({
    system: () => lookup('localhost'),
    dns: () => resolve4('localhost'),
    send: () => send('http://127.0.0.1:9/'),
    sendToName: () => send('http://localhost:9/'),
  }))
    codes[name] = await work().then((done) => done.error, (error) =>
      shortageOf(error) ?? error.name + ': ' + error.message);
  process.stdout.write(JSON.stringify(codes));
  process.exit();
`;

test('a process without open files blames neither the DNS nor a receiver', async () => {
  const script = ['--input-type=module', '-e', WITHOUT_FILES];
  const { stdout } = await promisify(execFile)(
    '/bin/sh',
    ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, ...script],
    { cwd: new URL('../..', import.meta.url) },
  );
  expect(JSON.parse(stdout)).toEqual({
    system: OPEN_FILES,
    dns: OPEN_FILES,
    send: `OwnShortage: ${OPEN_FILES}`,
    sendToName: `OwnShortage: ${OPEN_FILES}`,
  });
});
