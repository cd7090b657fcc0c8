import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

/**
 * Starts a thread, uses up the open files of its process, and calls an endpoint whose adapter is
 * not loaded yet: once without open files, and once with.
 */
const WITHOUT_FILES = `
  import { closeSync, openSync } from 'node:fs';
  const { createFileThread } = await import('./src/adapters/files/threads/file-thread.ts');
  const thread = createFileThread('sources');
  const open = (endpoint_id, settings, credentials) =>
    thread.open({ endpoint_id, settings, max_connections: 1, overwrite: true }, credentials);
  const answer = (endpoint) => endpoint.connections().catch((error) => error.message);

  const sftp = { protocol: 'sftp', host: '127.0.0.1', port: 22, username: 'u', base_path: '/' };
  const started = await answer(open('end_sftp', sftp, { password: 'p' }));

  const azure = { protocol: 'azure', account: 'a', container: 'c', prefix: '', ca_pem: null };
  const endpoint = open('end_azure', azure, { sas_token: 'sig=s' });
  const files = [];
  try { for (;;) files.push(openSync('/dev/null')); } catch {}
  const without = await answer(endpoint);
  for (const file of files) closeSync(file);
  process.stdout.write(JSON.stringify({ started, without, after: await answer(endpoint) }));
  process.exit();
`;

test('an endpoint that cannot open for want of open files opens at the next call', async () => {
  const { stdout } = await promisify(execFile)(
    '/bin/sh',
    ['-c', 'ulimit -n 128; exec "$@"', 'sh', process.execPath, '-e', WITHOUT_FILES],
    { cwd: new URL('../../../..', import.meta.url) },
  );
  expect(JSON.parse(stdout)).toEqual({
    started: 0,
    without: 'this process of Waybill has too many open files: raise its limit (ulimit -n)',
    after: 0,
  });
});
