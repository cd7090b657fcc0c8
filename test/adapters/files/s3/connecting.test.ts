import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { freePort } from '../../../support/network/free-port.ts';
import { abandon, download, opened, options, upload } from '../contract.ts';
import { useS3Server } from './endpoint-on.ts';

const never = new AbortController().signal;
const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

const s3 = useS3Server();
afterEach(() => {
  vi.unstubAllEnvs();
});

const errorOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('nothing was thrown'),
    (thrown: Error) => thrown,
  );

describe('signing in', () => {
  test.each([
    ['secret', { secret_access_key: 'canary-secret' }],
    ['key id', { access_key_id: 'canary-key-id' }],
  ])('fails with a wrong %s, and the error names no secret', async (_name, wrong) => {
    const credentials = {
      access_key_id: s3.server.accessKeyId,
      secret_access_key: s3.server.secretAccessKey,
      ...wrong,
    };
    const refused = s3.endpoint({ credentials });
    const asked = [
      refused.list('', never),
      refused.openSource('x', never),
      refused.remove('x', never),
      upload(refused, 'x', Buffer.from('small')),
      refused.openDestination('x', options(BIG)),
    ];
    for (const error of await Promise.all(asked.map(errorOf))) {
      expect(error).toMatchObject({
        name: 'FileError',
        code: 'auth_failed',
        step: 'sign_in',
        message: expect.stringMatching(/^Authentication failed/),
      });
      expect(`${error.stack} ${JSON.stringify(error)} ${error.cause}`).not.toMatch(
        /canary|Signature=/,
      );
    }
  });

  test('follows the settings, not the environment', async () => {
    const home = mkdtempSync(join(tmpdir(), 'waybill-home-'));
    writeFileSync(
      join(home, 'config'),
      '[default]\nregion = eu-west-9\nendpoint_url = http://127.0.0.1:9\nuse_fips_endpoint = true\n',
    );
    vi.stubEnv('AWS_CONFIG_FILE', join(home, 'config'));
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(home, 'config'));
    for (const [name, value] of Object.entries({
      AWS_REGION: 'eu-west-9',
      AWS_ACCESS_KEY_ID: 'other',
      AWS_SECRET_ACCESS_KEY: 'other',
      AWS_SESSION_TOKEN: 'other',
      AWS_ENDPOINT_URL: 'http://127.0.0.1:9',
      AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9',
      AWS_USE_DUALSTACK_ENDPOINT: 'true',
      AWS_MAX_ATTEMPTS: 'nonsense',
      AWS_RETRY_MODE: 'nonsense',
      AWS_DEFAULTS_MODE: 'nonsense',
      AWS_REQUEST_CHECKSUM_CALCULATION: 'nonsense',
      AWS_CA_BUNDLE: join(home, 'missing'),
      HTTP_PROXY: 'http://127.0.0.1:9',
      http_proxy: 'http://127.0.0.1:9',
      NODE_USE_ENV_PROXY: '1',
    })) {
      vi.stubEnv(name, value);
    }
    const content = randomBytes(BIG);
    const stubbed = s3.endpoint();
    await upload(stubbed, 'environment', content);
    expect(content.equals(await download(stubbed, 'environment'))).toBe(true);
    rmSync(home, { recursive: true });
  });
});

describe('a server is unreachable', () => {
  test('at a closed port', async () => {
    const closed = s3.endpoint({
      settings: { endpoint_url: `http://127.0.0.1:${await freePort()}` },
    });
    await expect(closed.openSource('x', never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'connect',
    });
    await expect(closed.probe(never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'connect',
    });
  });

  test('under an unknown host name', async () => {
    const nowhere = s3.endpoint({ settings: { endpoint_url: 'http://no-such-host.invalid' } });
    await expect(nowhere.openSource('x', never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'connect',
    });
  });

  test('when it goes silent', async () => {
    await s3.put('silent', randomBytes(BIG));
    const { proxy, over } = await s3.proxied({ timeouts: { stallMs: 300 } });
    // Again if a pause of this process took longer than the limit.
    const source = await opened(over, 'silent');
    const given = options(BIG);
    const file = await vi.waitFor(() => over.openDestination('silent-up', given), 30_000);
    proxy.stall(true);
    const stalled = [
      source.read(0, new Uint8Array(MiB)),
      source.stat(),
      file.write(0, randomBytes(8 * MiB)),
    ];
    for (const error of await Promise.all(stalled.map(errorOf)))
      expect(error).toMatchObject({ code: 'stalled' });
    await source.close();
    proxy.stall(false);
    await abandon(over, file, 'silent-up', given);
  });
});

describe('connections', () => {
  test('never exceed the limit, and are kept', async () => {
    const { proxy, over } = await s3.proxied({ maxConnections: 3 });
    const content = randomBytes(BIG);
    const most = { uploading: 0, downloading: 0 };
    const watch = (what: keyof typeof most, count: () => Promise<number>) =>
      setInterval(async () => {
        most[what] = Math.max(most[what], await count());
      }, 1);
    const uploading = watch('uploading', async () => proxy.connections);
    await Promise.all(
      Array.from({ length: 4 }, (_, index) => upload(over, `pooled-${index}`, content)),
    );
    clearInterval(uploading);
    // A connection that made room for another may still be closing at the server.
    const downloading = watch('downloading', over.connections);
    await Promise.all(Array.from({ length: 4 }, (_, index) => download(over, `pooled-${index}`)));
    clearInterval(downloading);
    expect(most).toEqual({ uploading: 3, downloading: 3 });
    expect(await over.connections()).toBeGreaterThan(0);
    await over.close();
    await vi.waitUntil(() => proxy.connections === 0, 30_000);
    expect(await over.connections()).toBe(0);
    await expect(over.list('', never)).rejects.toMatchObject({ code: 'connection_failed' });
  });

  test('are replaced after the server closed them', async () => {
    const { proxy, over } = await s3.proxied();
    const content = randomBytes(BIG);
    await upload(over, 'again', content);
    await download(over, 'again');
    proxy.cut();
    expect(content.equals(await download(over, 'again'))).toBe(true);
  });

  test('do not delay an aborted request', async () => {
    const { proxy, over } = await s3.proxied({ maxConnections: 1 });
    proxy.stall(true);
    const held = new AbortController();
    const waiting = new AbortController();
    const first = errorOf(over.list('', held.signal));
    const second = errorOf(over.list('', waiting.signal));
    await vi.waitUntil(() => proxy.connections === 1, 30_000);
    waiting.abort();
    expect(await second).toMatchObject({ name: 'FileError' });
    held.abort();
    expect(await first).toMatchObject({ name: 'FileError' });
  });
});
