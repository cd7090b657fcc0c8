import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LONG, longUnless } from '../../run/long.ts';
import {
  type FtpsServer,
  type FtpsServerOptions,
  startFtpsServer,
  whyNoFtpsServer,
} from './server.ts';

// With TLS 1.3, curl leaves the session tickets of an upload unread. The close then resets the
// connection, and the end of the upload may be lost.
const UPLOAD = ['--tls-max', '1.2', '-T'];

let server: FtpsServer | undefined;

afterEach(async () => {
  await server?.stop();
  server = undefined;
});

async function start(options: FtpsServerOptions): Promise<FtpsServer> {
  server = await startFtpsServer(options);
  return server;
}

/** Runs curl, which resumes TLS sessions by default. Returns the exit code, 0 for success. */
async function curl(
  { port, username, password, root, caPem }: FtpsServer,
  tls: 'explicit' | 'implicit',
  path: string,
  ...args: string[]
) {
  const caFile = join(root, 'ca.pem');
  writeFileSync(caFile, caPem);
  const url = `${tls === 'explicit' ? 'ftp' : 'ftps'}://127.0.0.1:${port}/${encodeURI(path)}`;
  try {
    const { stdout } = await promisify(execFile)(
      'curl',
      ['-sS', '--ssl-reqd', '--cacert', caFile, '--user', `${username}:${password}`, ...args, url],
      { maxBuffer: 1 << 24 },
    );
    return { code: 0, stdout };
  } catch (error) {
    const { code, stdout } = error as { code: number; stdout: string };
    return { code, stdout };
  }
}

describe.for(['proftpd', 'vsftpd'] as const)('%s', async (kind) => {
  const reason = await whyNoFtpsServer(kind);

  beforeEach(({ skip }) => skip(reason !== null, reason ?? ''));

  for (const tls of ['explicit', 'implicit'] as const) {
    const title = `${tls} TLS: files are stored and read over resumed sessions`;
    test(title, longUnless(tls === 'explicit'), async () => {
      const ftps = await start({ kind, tls });
      const content = 'x'.repeat(1_000_000);
      writeFileSync(join(ftps.root, 'from'), content);
      const upload = await curl(
        ftps,
        tls,
        ftps.remotePath('to'),
        ...UPLOAD,
        join(ftps.root, 'from'),
      );
      expect(upload).toMatchObject({ code: 0 });
      expect(readFileSync(join(ftps.root, 'to'), 'utf8')).toBe(content);
      expect(await curl(ftps, tls, ftps.remotePath('from'))).toEqual({ code: 0, stdout: content });
      expect(ftps.log()).toMatch(/RETR/);
    });
  }

  test('data connections of another TLS session are rejected', LONG, async () => {
    const ftps = await start({ kind, tls: 'explicit' });
    const upload = await curl(
      ftps,
      'explicit',
      ftps.remotePath('to'),
      ...UPLOAD,
      join(ftps.root, '..', 'cert.pem'),
      '--no-sessionid',
    );
    expect(upload.code).not.toBe(0);
  });

  test('a wrong password, and commands without TLS, are rejected', LONG, async () => {
    const ftps = await start({ kind, tls: 'explicit' });
    const wrong = { ...ftps, password: 'wrong' };
    expect((await curl(wrong, 'explicit', `${ftps.root}/`)).code).toBe(67);
    const plain = promisify(execFile)('curl', [
      '-sS',
      '--user',
      `${ftps.username}:${ftps.password}`,
      `ftp://127.0.0.1:${ftps.port}/`,
    ]);
    await expect(plain).rejects.toMatchObject({ code: 67 });
  });

  test('the requested certificate is shown', LONG, async () => {
    const ftps = await start({ kind, tls: 'explicit', certificate: 'expired' });
    expect((await curl(ftps, 'explicit', `${ftps.root}/`)).code).toBe(60);
  });

  test('a read-only server allows reads and rejects writes', LONG, async () => {
    const ftps = await start({ kind, tls: 'explicit', readOnly: true });
    writeFileSync(join(ftps.root, 'file'), 'content');
    expect(await curl(ftps, 'explicit', ftps.remotePath('file'))).toEqual({
      code: 0,
      stdout: 'content',
    });
    expect(
      (await curl(ftps, 'explicit', ftps.remotePath('to'), ...UPLOAD, join(ftps.root, 'file')))
        .code,
    ).not.toBe(0);
    expect(ftps.log()).toMatch(/STOR to.*550/s);
    expect(existsSync(join(ftps.root, 'to'))).toBe(false);
  });

  test('the server stops and restarts on the same port', LONG, async () => {
    const ftps = await start({ kind, tls: 'explicit' });
    await ftps.down();
    expect((await curl(ftps, 'explicit', `${ftps.root}/`)).code).toBe(7);
    await ftps.restart();
    expect((await curl(ftps, 'explicit', `${ftps.root}/`)).code).toBe(0);
  });

  test('the small disk fills up', LONG, async ({ skip }) => {
    skip(process.getuid?.() !== 0, 'only root can mount a file system');
    const ftps = await start({ kind, tls: 'explicit', smallDiskBytes: 100_000 });
    writeFileSync(join(ftps.root, 'big'), Buffer.alloc(1_000_000));
    const path = join(ftps.smallDisk, 'big');
    expect((await curl(ftps, 'explicit', path, ...UPLOAD, join(ftps.root, 'big'))).code).not.toBe(
      0,
    );
  });
});
