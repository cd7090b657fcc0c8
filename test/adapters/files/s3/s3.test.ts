import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import {
  CreateMultipartUploadCommand,
  GetObjectCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type {
  DestinationFile,
  FileEndpoint,
  ResumePoint,
} from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import {
  type Operation,
  type S3Server,
  startS3Server,
} from '../../../support/file-servers/s3/server/server.ts';
import { freePort } from '../../../support/network/free-port.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';
import { abandon, download, options, readAll, upload, whole, writeFrom } from '../contract.ts';
import { clientOn, endpointOn, type Given } from './endpoint-on.ts';

const never = new AbortController().signal;
const MiB = 1 << 20;
const BIG = 20 * MiB + 5;

let server: S3Server;
let client: S3Client;
const open: FileEndpoint[] = [];
const proxies: TcpProxy[] = [];

beforeAll(async () => {
  // A page of S3 has 1,000 entries: as many would take seconds of CPU time.
  server = await startS3Server({ pageSize: 20 });
  server.createBucket('bucket');
  client = clientOn(server);
});
afterEach(async () => {
  server.clearFaults();
  vi.unstubAllEnvs();
  for (const endpoint of open.splice(0)) await endpoint.close();
  for (const proxy of proxies.splice(0)) await proxy.close();
});
afterAll(async () => {
  client?.destroy();
  await server?.stop();
});

function endpoint(given: Given = {}, on: S3Server = server): FileEndpoint {
  const made = endpointOn(on, given);
  open.push(made);
  return made;
}

async function proxied(given: Given = {}): Promise<{ proxy: TcpProxy; over: FileEndpoint }> {
  const { hostname: host, port } = new URL(server.endpointUrl);
  const proxy = await startTcpProxy({ host, port: Number(port) });
  proxies.push(proxy);
  const over = endpoint({
    ...given,
    settings: { endpoint_url: `http://127.0.0.1:${proxy.port}`, ...given.settings },
  });
  return { proxy, over };
}

async function get(key: string): Promise<Buffer> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: 'bucket', Key: key }));
  return Buffer.from((await Body?.transformToByteArray()) as Uint8Array);
}

async function put(key: string, content: Buffer): Promise<void> {
  await client.send(new PutObjectCommand({ Bucket: 'bucket', Key: key, Body: content }));
}

const requestsOf = (operation: Operation) =>
  server.requests.filter((request) => request.operation === operation);

const errorOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('nothing was thrown'),
    (thrown: Error) => thrown,
  );

/** Memory in the form that a mover passes. */
function shared(content: Buffer): Uint8Array {
  const bytes = new Uint8Array(new SharedArrayBuffer(content.length));
  bytes.set(content);
  return bytes;
}

describe('signing in', () => {
  test.each([
    ['secret', { secret_access_key: 'canary-secret' }],
    ['key id', { access_key_id: 'canary-key-id' }],
  ])('fails with a wrong %s, and the error names no secret', async (_name, wrong) => {
    const credentials = {
      access_key_id: server.accessKeyId,
      secret_access_key: server.secretAccessKey,
      ...wrong,
    };
    const refused = endpoint({ credentials });
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
    const stubbed = endpoint();
    await upload(stubbed, 'environment', content);
    expect(content.equals(await download(stubbed, 'environment'))).toBe(true);
    rmSync(home, { recursive: true });
  });
});

describe('looking up', () => {
  test('a bucket of another name fails', async () => {
    const wrong = endpoint({ settings: { bucket: 'no-such-bucket' } });
    await expect(wrong.openSource('x', never)).rejects.toMatchObject({
      code: 'source_not_found',
      message: expect.stringContaining('bucket'),
    });
    await expect(wrong.list('', never)).rejects.toMatchObject({ code: 'source_not_found' });
    await expect(upload(wrong, 'x', Buffer.from('x'))).rejects.toMatchObject({
      code: 'destination_not_found',
      step: 'commit',
    });
    await expect(wrong.openDestination('x', options(BIG))).rejects.toMatchObject({
      code: 'destination_not_found',
      step: 'open',
    });
    await expect(
      wrong.openDestination('x', options(1, { overwrite: false })),
    ).rejects.toMatchObject({ code: 'destination_not_found' });
  });

  test('a bucket in another region names the region', async () => {
    const wrong = endpoint({ settings: { region: 'eu-west-9' } });
    const error = await errorOf(wrong.openSource('x', never));
    expect(error).toMatchObject({
      code: 'source_not_found',
      message: expect.stringMatching(/another region.*eu-central-1/),
    });
  });

  test.each([
    '.',
    '..',
    'a/./b',
    'a/../b',
    'a//b',
    'trailing...',
    'plus+sign',
    '%2F',
    '100% #1?&=',
    `'"<>&`,
    '~!*()',
    'ü 文件 🚚',
  ])('the key %j works as it is', async (odd) => {
    const content = Buffer.from(odd);
    const odds = endpoint();
    await upload(odds, `odd/${odd}`, content);
    expect(server.object('bucket', `odd/${odd}`)?.body.size).toBe(content.length);
    expect(await download(odds, `odd/${odd}`)).toEqual(content);
    await odds.remove(`odd/${odd}`, never);
    expect(server.object('bucket', `odd/${odd}`)).toBeUndefined();
  });

  test('leftovers removes nothing if there are none', async () => {
    await expect(endpoint().remove('no-such-key', never)).rejects.toMatchObject({
      code: 'source_not_found',
    });
  });

  test('a folder lists more entries than one answer holds', async () => {
    const many = endpoint();
    const names = Array.from({ length: 45 }, (_, index) => `many/${index}`);
    await Promise.all(names.map((name) => put(name, Buffer.from('1'))));
    expect(await many.list('many', never)).toHaveLength(45);
  });
});

describe('a server is unreachable', () => {
  test('at a closed port', async () => {
    const nobody = endpoint({ settings: { endpoint_url: `http://127.0.0.1:${await freePort()}` } });
    await expect(nobody.openSource('x', never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'connect',
    });
    await expect(nobody.probe(never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'connect',
    });
  });

  test('under an unknown host name', async () => {
    const nowhere = endpoint({ settings: { endpoint_url: 'http://no-such-host.invalid' } });
    await expect(nowhere.openSource('x', never)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'connect',
    });
  });

  test('when it goes silent', async () => {
    await put('silent', randomBytes(BIG));
    const { proxy, over } = await proxied({ timeouts: { stallMs: 300 } });
    const source = await over.openSource('silent', never);
    const given = options(BIG);
    const file = await over.openDestination('silent-up', given);
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

describe('checksums', () => {
  test.each([['a part', BIG] as const, ['a small file', MiB] as const])(
    'reject %s that changes on its way',
    async (_name, size) => {
      const content = randomBytes(size);
      const over = endpoint();
      const given = options(size);
      const file = await over.openDestination('corrupt', given);
      if (size === BIG) {
        const chunk = shared(content.subarray(0, 8 * MiB));
        const writing = file.write(0, chunk);
        chunk[5]! ^= 1;
        await expect(writing).rejects.toMatchObject({ code: 'checksum_mismatch' });
      } else {
        server.fault({ operation: 'PutObject', kind: 'error', code: 'BadDigest' });
        await file.write(0, content);
        await expect(file.commit(whole(content))).rejects.toMatchObject({
          code: 'checksum_mismatch',
          step: 'commit',
        });
      }
      await abandon(over, file, 'corrupt', given);
      expect(server.object('bucket', 'corrupt')).toBeUndefined();
    },
  );

  test('are named in the result', async () => {
    const over = endpoint();
    expect(await upload(over, 'small', randomBytes(1000))).toMatchObject({
      size: 1000,
      destinationChecksum: 'md5',
      atomicReplace: true,
    });
    expect(await upload(over, 'big', randomBytes(BIG))).toMatchObject({
      size: BIG,
      destinationChecksum: 'crc32',
      atomicReplace: true,
    });
  });

  test('in the answer to the completion need no further look', async () => {
    await upload(endpoint(), 'completed', randomBytes(BIG));
    expect(requestsOf('HeadObject').filter(({ key }) => key === 'completed')).toEqual([]);
    expect(requestsOf('UploadPart').filter(({ key }) => key === 'completed')).toHaveLength(3);
  });

  test('work under a KMS key, whose ETag is not an MD5', async () => {
    const over = endpoint({
      settings: { sse: 'aws:kms', sse_kms_key_id: 'a-key', storage_class: 'STANDARD_IA' },
    });
    expect(await upload(over, 'kms-small', randomBytes(1000))).toMatchObject({
      size: 1000,
      destinationChecksum: 'md5',
    });
    expect(await upload(over, 'kms-big', randomBytes(BIG))).toMatchObject({
      size: BIG,
      destinationChecksum: 'crc32',
    });
    for (const key of ['kms-small', 'kms-big']) {
      expect(server.object('bucket', key)?.headers).toMatchObject({
        'x-amz-server-side-encryption': 'aws:kms',
        'x-amz-server-side-encryption-aws-kms-key-id': 'a-key',
        'x-amz-storage-class': 'STANDARD_IA',
      });
    }
  });

  test('are signed too when plain text goes to another host', async () => {
    // Another name of this host.
    const url = server.endpointUrl.replace('127.0.0.1', '0.0.0.0');
    const hashOf = (key: string) =>
      requestsOf('PutObject').find((request) => request.key === key)?.headers[
        'x-amz-content-sha256'
      ];
    await upload(endpoint({ settings: { endpoint_url: url } }), 'signed', Buffer.from('signed'));
    await upload(endpoint(), 'unsigned', Buffer.from('unsigned'));
    expect(hashOf('signed')).toBe(whole(Buffer.from('signed')).sha256);
    expect(hashOf('unsigned')).toBe('UNSIGNED-PAYLOAD');
  });
});

describe('a request', () => {
  test('is retried on a server that is busy for a moment', async () => {
    const content = randomBytes(BIG);
    for (const operation of [
      'CreateMultipartUpload',
      'UploadPart',
      'CompleteMultipartUpload',
      'HeadObject',
      'GetObject',
    ] as const) {
      server.fault({ operation, kind: 'error', code: 'SlowDown' });
    }
    const over = endpoint();
    await upload(over, 'busy', content);
    expect(content.equals(await download(over, 'busy'))).toBe(true);
  });

  test('is not retried forever', async () => {
    server.fault({ operation: 'UploadPart', kind: 'error', code: 'SlowDown', times: 100 });
    server.fault({ operation: 'PutObject', kind: 'error', code: 'InternalError', times: 100 });
    const over = endpoint();
    await expect(upload(over, 'x', randomBytes(BIG))).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('SlowDown'),
    });
    await expect(upload(over, 'x', randomBytes(5))).rejects.toMatchObject({
      code: 'connection_failed',
    });
  });

  test('is retried after its connection breaks in the middle', async () => {
    const content = randomBytes(BIG);
    const over = endpoint();
    server.fault({ operation: 'UploadPart', kind: 'cut', afterBytes: MiB });
    await upload(over, 'cut', content);
    server.fault({ operation: 'GetObject', kind: 'cut', afterBytes: MiB });
    expect(content.equals(await download(over, 'cut'))).toBe(true);
  });

  test('is retried only a few times', async () => {
    await put('cut-often', randomBytes(BIG));
    const over = endpoint();
    server.fault({ operation: 'UploadPart', kind: 'cut', afterBytes: MiB, times: 100 });
    server.fault({ operation: 'GetObject', kind: 'cut', afterBytes: MiB, times: 100 });
    await expect(upload(over, 'x', randomBytes(BIG))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'transfer',
    });
    await expect(download(over, 'cut-often')).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'transfer',
    });
  });

  test.each([true, false])(
    'survives the loss of the answer to a commit (overwrite: %s)',
    async (overwrite) => {
      const over = endpoint();
      for (const [operation, size] of [
        ['CompleteMultipartUpload', BIG],
        ['PutObject', 1000],
      ] as const) {
        const key = `lost-${operation}-${overwrite}`;
        const content = randomBytes(size);
        server.fault({ operation, kind: 'lose-answer' });
        expect(await upload(over, key, content, { overwrite })).toMatchObject({ size });
        expect(content.equals(await get(key))).toBe(true);
      }
    },
  );

  test('fails if the answer to a commit is lost and the owner is unknown', async () => {
    const over = endpoint({ settings: { sse: 'aws:kms', sse_kms_key_id: 'a-key' } });
    const unclear = { name: 'FileError', code: 'connection_failed', step: 'commit' };
    server.fault({ operation: 'PutObject', kind: 'lose-answer' });
    await expect(
      upload(over, 'unclear-small', randomBytes(1000), { overwrite: false }),
    ).rejects.toMatchObject(unclear);
    for (const operation of ['HeadObject', 'GetObject'] as const) {
      // Before the commit, the name does not exist. The result says so.
      server.fault({ operation, kind: 'slow', delayMs: 0, times: 2 });
      server.fault({ operation, kind: 'error', code: 'AccessDenied' });
    }
    server.fault({ operation: 'CompleteMultipartUpload', kind: 'lose-answer' });
    server.fault({
      operation: 'CompleteMultipartUpload',
      kind: 'error',
      code: 'PreconditionFailed',
    });
    await expect(
      upload(over, 'unclear-big', randomBytes(BIG), { overwrite: false }),
    ).rejects.toMatchObject(unclear);
  });

  test('fails for an error with a status of success', async () => {
    const content = randomBytes(BIG);
    const over = endpoint();
    server.fault({
      operation: 'CompleteMultipartUpload',
      kind: 'error-in-success',
      code: 'InternalError',
    });
    await upload(over, 'in-success', content);
    expect(content.equals(await get('in-success'))).toBe(true);
    server.fault({
      operation: 'CompleteMultipartUpload',
      kind: 'error-in-success',
      code: 'InternalError',
      times: 100,
    });
    await expect(upload(over, 'never', content)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    expect(server.object('bucket', 'never')).toBeUndefined();
  });
});

test.each([
  ['a consumer takes before it is looked at', 'NoSuchKey' as const],
  ['the user may not read', 'AccessDenied' as const],
])('commits an object that %s', async (_, code) => {
  // Its ETag does not tell its size.
  const over = endpoint({ settings: { sse: 'aws:kms', sse_kms_key_id: 'a-key' } });
  for (const operation of ['HeadObject', 'GetObject'] as const)
    server.fault({ operation, kind: 'error', code });
  expect(await upload(over, 'taken', randomBytes(1000))).toMatchObject({ size: 1000 });
});

test('moves files of any size on a server that rejects the headers of checksums', async () => {
  const other = await startS3Server({ refusedHeaders: /^x-amz-(sdk-)?checksum/ });
  onTestFinished(other.stop);
  other.createBucket('bucket');
  const over = endpoint({ partLimits: { chunkSize: 5 * MiB, maxParts: 2 } }, other);
  for (const size of [1000, 10 * MiB, 15 * MiB]) {
    const content = randomBytes(size);
    expect(await upload(over, `file-${size}`, content)).toMatchObject({
      size,
      destinationChecksum: 'md5',
    });
    expect(content.equals(await download(over, `file-${size}`))).toBe(true);
  }
  expect(other.uploads('bucket')).toEqual([]);
});

test.each([
  ['CRC-32', {}],
  ['MD5', { refusedHeaders: /checksum/ }],
])('moves files to a server that has the %s of the whole object only', async (_name, given) => {
  const other = await startS3Server({ ...given, wholeChecksums: true });
  onTestFinished(other.stop);
  other.createBucket('bucket');
  const over = endpoint({}, other);
  const content = randomBytes(BIG);
  for (const overwrite of [false, true]) {
    const { size } = await upload(over, 'whole', content, { overwrite });
    expect(size).toBe(BIG);
    expect(content.equals(await download(over, 'whole'))).toBe(true);
  }
});

describe('replacing small objects', () => {
  const requestsFor = (key: string, on = server) =>
    on.requests
      .filter((request) => request.key === key)
      .map(({ operation, status }) => `${operation} ${status}`);

  test('sends one request for a new name, and looks ahead if names are often taken', async () => {
    const over = endpoint();
    await upload(over, 'again', randomBytes(1000));
    expect(requestsFor('again')).toEqual(['PutObject 200']);
    for (const _ of ['the second', 'the third']) await upload(over, 'again', randomBytes(1000));
    expect(requestsFor('again').slice(1)).toEqual([
      ...['PutObject 412', 'HeadObject 200', 'PutObject 200'],
      ...['HeadObject 200', 'PutObject 200'],
    ]);
    for (const key of ['new-1', 'new-2']) await upload(over, key, randomBytes(1000));
    expect(requestsFor('new-2')).toEqual(['PutObject 200']);
  });

  test('works on a server that rejects conditions', async () => {
    const other = await startS3Server({ refusedHeaders: /^if-(none-)?match$/ });
    onTestFinished(other.stop);
    other.createBucket('bucket');
    const over = endpoint({}, other);
    for (const size of [10, 20]) {
      await upload(over, 'file', randomBytes(size));
      expect(other.object('bucket', 'file')?.body.size).toBe(size);
    }
    // Only the first request shows what the server lacks.
    expect(requestsFor('file', other)).toEqual(['PutObject 400', 'PutObject 200', 'PutObject 200']);
    await upload(endpoint({}, other), 'new', randomBytes(30), { overwrite: false });
    expect(other.object('bucket', 'new')?.body.size).toBe(30);
  });

  test('goes on if a consumer takes the object meanwhile', async () => {
    const over = endpoint();
    await put('taken-meanwhile', Buffer.from('older'));
    server.fault({ operation: 'HeadObject', kind: 'slow', delayMs: 300 });
    const uploading = upload(over, 'taken-meanwhile', Buffer.from('newer'));
    await vi.waitUntil(() => requestsFor('taken-meanwhile').includes('HeadObject null'));
    server.fault({ operation: 'PutObject', kind: 'error', code: 'NoSuchKey' });
    await uploading;
    expect(await get('taken-meanwhile')).toEqual(Buffer.from('newer'));
  });
});

test('checks the destination only beforehand on a server without conditional writes', async () => {
  const over = endpoint();
  for (const [operation, size] of [
    ['CompleteMultipartUpload', BIG],
    ['PutObject', 1000],
  ] as const) {
    const content = randomBytes(size);
    server.fault({ operation, kind: 'error', code: 'NotImplemented' });
    expect(
      await upload(over, `unconditional-${operation}`, content, { overwrite: false }),
    ).toMatchObject({ size });
    expect(content.equals(await get(`unconditional-${operation}`))).toBe(true);
  }
});

test('keeps an object that appears between the check and the commit', async () => {
  const content = randomBytes(BIG);
  const over = endpoint();
  const given = options(BIG, { overwrite: false });
  const file = await over.openDestination('raced', given);
  await writeFrom(file, content);
  server.fault({ operation: 'CompleteMultipartUpload', kind: 'slow', delayMs: 500 });
  const committing = errorOf(file.commit(whole(content)));
  await vi.waitUntil(
    () =>
      requestsOf('CompleteMultipartUpload').some(
        ({ key, status }) => key === 'raced' && status === null,
      ),
    30_000,
  );
  await put('raced', Buffer.from('other'));
  expect(await committing).toMatchObject({ code: 'destination_exists', step: 'commit' });
  await abandon(over, file, 'raced', given);
  expect(await get('raced')).toEqual(Buffer.from('other'));
});

describe('resuming', () => {
  const chunk = 8 * MiB;
  const content = randomBytes(3 * chunk + 1);

  async function interrupted(
    key: string,
  ): Promise<{ file: DestinationFile; transferId: string; over: FileEndpoint }> {
    const over = endpoint();
    const transferId = newId('txr');
    const file = await over.openDestination(key, options(content.length, { transferId }));
    for (let at = 0; at < 3 * chunk; at += chunk)
      await file.write(at, content.subarray(at, at + chunk));
    return { file, transferId, over };
  }

  async function finish(key: string, file: DestinationFile): Promise<void> {
    await writeFrom(file, content);
    await file.commit(whole(content));
    await file.close();
    expect(content.equals(await get(key))).toBe(true);
    expect(server.uploads('bucket')).toEqual([]);
  }

  test('stops at a part that has changed', async () => {
    const { file, transferId, over } = await interrupted('another-part');
    const resume = await file.resumePoint(3 * chunk);
    await file.close();
    const { upload_id: UploadId } = resume.state as { upload_id: string };
    const part = {
      Bucket: 'bucket',
      Key: 'another-part',
      UploadId,
      PartNumber: 2,
      Body: randomBytes(chunk),
      ChecksumAlgorithm: 'CRC32' as const,
    };
    await client.send(new UploadPartCommand(part));
    const successor = await over.openDestination(
      'another-part',
      options(content.length, { transferId, resume }),
    );
    expect(successor.resumedFrom).toBe(chunk);
    await finish('another-part', successor);
  });

  test('stops at a part that is missing', async () => {
    const over = endpoint();
    const transferId = newId('txr');
    const file = await over.openDestination(
      'missing-part',
      options(content.length, { transferId }),
    );
    for (const at of [0, 2 * chunk]) await file.write(at, content.subarray(at, at + chunk));
    const honest = await file.resumePoint(3 * chunk);
    expect(honest.bytes).toBe(chunk);
    await file.close();
    const digests = Buffer.alloc(12);
    for (const at of [0, 1, 2])
      digests.writeUInt32BE(crc32(content.subarray(at * chunk, (at + 1) * chunk)), at * 4);
    const resume = {
      bytes: 3 * chunk,
      state: { ...(honest.state as object), digests: digests.toString('base64') },
    };
    const successor = await over.openDestination(
      'missing-part',
      options(content.length, { transferId, resume }),
    );
    expect(successor.resumedFrom).toBe(chunk);
    await finish('missing-part', successor);
  });

  test('finds the parts of more than one page', async () => {
    const size = 110_000;
    const over = endpoint({ partLimits: { chunkSize: 1_000, maxParts: 10_000 } });
    const transferId = newId('txr');
    const file = await over.openDestination('paged', options(size, { transferId }));
    for (let part = 0; part < 105; part++) await file.write(part * 1_000, randomBytes(1_000));
    const resume = await file.resumePoint(105_000);
    await file.close();
    const successor = await over.openDestination('paged', options(size, { transferId, resume }));
    expect(successor.resumedFrom).toBe(105_000);
    await abandon(over, successor, 'paged', options(size, { transferId }));
  });

  test('starts over when the source has changed, and ends the old upload', async () => {
    const { file, transferId, over } = await interrupted('begun-twice');
    await file.close();
    const anew = await over.openDestination('begun-twice', options(content.length, { transferId }));
    expect(anew.resumedFrom).toBe(0);
    expect(server.uploads('bucket')).toHaveLength(1);
    await finish('begun-twice', anew);
  });

  test('works in another process, whose clean-up leaves the uploads of others alone', async () => {
    const { file, transferId } = await interrupted('elsewhere');
    const resume = await file.resumePoint(2 * chunk);
    await file.close();
    const { UploadId } = await client.send(
      new CreateMultipartUploadCommand({ Bucket: 'bucket', Key: 'elsewhere' }),
    );
    const other = endpoint();
    await other.removeLeftovers('elsewhere', { transferId, resume, signal: never });
    await other.removeLeftovers('elsewhere', { transferId, resume, signal: never });
    expect(server.uploads('bucket')).toEqual([UploadId]);
    await other.removeLeftovers('elsewhere', {
      transferId,
      resume: { bytes: 0, state: { upload_id: UploadId } },
      signal: never,
    });
  });
});

describe('an upload that its transfer has forgotten', () => {
  const since = new Date();
  const LATER_MS = 6 * 60_000;
  const content = randomBytes(BIG);
  const cleanUp = (key: string, resume: ResumePoint | null = null) =>
    endpoint().removeLeftovers(key, { transferId: newId('txr'), resume, since, signal: never });
  const later = () => vi.spyOn(Date, 'now').mockReturnValue(Date.now() + LATER_MS);
  const begin = async (Key: string) =>
    (
      await client.send(
        new CreateMultipartUploadCommand({ Bucket: 'bucket', Key, ChecksumAlgorithm: 'CRC32' }),
      )
    ).UploadId as string;
  afterEach(() => vi.restoreAllMocks());

  test('is removed after the commit if the answer that named it was lost', async () => {
    server.fault({ operation: 'CreateMultipartUpload', kind: 'lose-answer' });
    const proof = await upload(endpoint(), 'forgotten/a', content);
    expect(proof).toMatchObject({ size: BIG, leftovers: true });
    expect(server.uploads('bucket')).toHaveLength(1);
    await expect(cleanUp('forgotten/a')).rejects.toThrow('an upload without parts began');
    later();
    await cleanUp('forgotten/a');
    expect(server.uploads('bucket')).toEqual([]);
  });

  test('is not reported by a commit whose upload was the only one', async () => {
    expect(await upload(endpoint(), 'forgotten/b', content)).not.toHaveProperty('leftovers');
  });

  test('ends if the transfer is stopped before the answer', async () => {
    const { proxy, over } = await proxied();
    const held = proxy.holdWhen(() => server.uploads('bucket').length > 0, 'down');
    const stopping = new AbortController();
    const opening = over.openDestination('forgotten/c', options(BIG, { signal: stopping.signal }));
    const release = await held;
    stopping.abort();
    await expect(opening).rejects.toThrow();
    void release();
    await vi.waitFor(() => expect(server.uploads('bucket')).toEqual([]));
  });

  test('is the only one to go: those with parts, of other keys, and older ones stay', async () => {
    const kept = [await begin('forgotten/d'), await begin('forgotten/d-other')];
    await client.send(
      new UploadPartCommand({
        ...{ Bucket: 'bucket', Key: 'forgotten/d', UploadId: kept[0], PartNumber: 1, Body: 'part' },
      }),
    );
    const lost = await begin('forgotten/d');
    later();
    const tomorrow = new Date(Date.now() + 86_400_000);
    const leftovers = { transferId: newId('txr'), resume: null, signal: never };
    await endpoint().removeLeftovers('forgotten/d', { ...leftovers, since: tomorrow });
    await endpoint().removeLeftovers('forgotten/d', leftovers);
    expect(server.uploads('bucket')).toEqual([...kept, lost]);
    await cleanUp('forgotten/d');
    expect(server.uploads('bucket')).toEqual(kept);
    for (const upload_id of kept)
      await cleanUp(upload_id === kept[0] ? 'forgotten/d' : 'forgotten/d-other', {
        bytes: 0,
        state: { upload_id },
      });
  });

  test('does no harm if the server refuses to list uploads', async () => {
    const lost = await begin('forgotten/e');
    const denied = {
      kind: 'error',
      code: 'AccessDenied',
      times: Number.POSITIVE_INFINITY,
    } as const;
    server.fault({ operation: 'ListMultipartUploads', ...denied });
    later();
    await cleanUp('forgotten/e');
    expect(server.uploads('bucket')).toEqual([lost]);
    server.clearFaults();
    await cleanUp('forgotten/e');
    expect(server.uploads('bucket')).toEqual([]);
  });

  test('stays if the object under its key has its data', async () => {
    const over = endpoint();
    const given = options(BIG);
    const file = await over.openDestination('forgotten/f', given);
    await writeFrom(file, content);
    const resume = await file.resumePoint(BIG);
    server.fault({ operation: 'CompleteMultipartUpload', kind: 'keep-upload' });
    server.fault({
      ...{ operation: 'CompleteMultipartUpload', kind: 'error', code: 'InternalError' },
      times: 2,
    });
    expect(await file.commit(whole(content))).toMatchObject({ size: BIG });
    await file.close();
    expect(server.uploads('bucket')).toHaveLength(1);
    later();
    await cleanUp('forgotten/f', resume);
    expect(content.equals(await get('forgotten/f'))).toBe(true);

    await put('forgotten/f', Buffer.from('newer'));
    await cleanUp('forgotten/f', resume);
    expect(server.uploads('bucket')).toEqual([]);
    expect(String(await get('forgotten/f'))).toBe('newer');
  });
});

describe('an upload whose object was there before, with the same content', () => {
  test('is removed', async () => {
    const content = randomBytes(BIG);
    await upload(endpoint(), 'same', content);
    // The times of objects are whole seconds.
    await sleep(1_100);
    const given = options(BIG);
    const file = await endpoint().openDestination('same', given);
    await writeFrom(file, content);
    const resume = await file.resumePoint(BIG);
    await file.close();
    await endpoint().removeLeftovers('same', { ...given, resume });
    expect(server.uploads('bucket')).toEqual([]);
  });

  test('does not count as that object if the server fails to complete it', async () => {
    const content = randomBytes(BIG);
    const over = endpoint();
    await upload(over, 'same-again', content);
    await sleep(1_100);
    const given = options(BIG);
    const file = await over.openDestination('same-again', given);
    await writeFrom(file, content);
    server.fault({
      ...{ operation: 'CompleteMultipartUpload', kind: 'error', code: 'InternalError' },
      times: 100,
    });
    await expect(file.commit(whole(content))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    expect(server.uploads('bucket')).toHaveLength(1);
    await abandon(over, file, 'same-again', given);
    expect(server.uploads('bucket')).toEqual([]);
  });
});

describe('parts larger than a chunk', () => {
  const limits = { chunkSize: 2 * MiB, maxParts: 4 };
  const content = randomBytes(BIG);
  const part = 6 * MiB;

  test('are sent while their chunks arrive', async () => {
    const over = endpoint({ partLimits: limits });
    const file = await over.openDestination('streamed', options(BIG));
    expect(file).toMatchObject({ chunkSize: 2 * MiB, parallelWrites: 1 });
    await writeFrom(file, content);
    expect(await file.commit(whole(content))).toMatchObject({
      size: BIG,
      destinationChecksum: 'crc32',
      atomicReplace: true,
    });
    await file.close();
    expect(content.equals(await get('streamed'))).toBe(true);
  });

  test('count only when they are answered, and uploads resume from there', async () => {
    const over = endpoint({ partLimits: limits });
    const transferId = newId('txr');
    const file = await over.openDestination('streamed-on', options(BIG, { transferId }));
    for (let at = 0; at < part + 4 * MiB; at += 2 * MiB)
      await file.write(at, content.subarray(at, at + 2 * MiB));
    await file.close();
    const resume = await file.resumePoint(part + 4 * MiB);
    expect(resume.bytes).toBe(part);
    const successor = await over.openDestination(
      'streamed-on',
      options(BIG, { transferId, resume }),
    );
    expect(successor.resumedFrom).toBe(part);
    await writeFrom(successor, content);
    await successor.commit(whole(content));
    await successor.close();
    expect(content.equals(await get('streamed-on'))).toBe(true);
  });

  test('wait longer for their source than for a server that takes no more', async () => {
    const { proxy, over } = await proxied({ partLimits: limits, timeouts: { stallMs: 1_000 } });
    const given = options(BIG);
    const file = await over.openDestination('slow-chunks', given);
    const write = (at: number) => file.write(at, content.subarray(at, at + 2 * MiB));
    for (const at of [0, 2 * MiB, 4 * MiB, 6 * MiB]) {
      await write(at);
      await sleep(1_500);
    }
    proxy.stall(true);
    const rest = write(8 * MiB).then(() => write(10 * MiB));
    await expect(rest).rejects.toMatchObject({ code: 'stalled', step: 'transfer' });
    await file.close();
    proxy.stall(false);
    await over.removeLeftovers('slow-chunks', { ...given, resume: null });
  });

  test('fail if the connection breaks while the source is slow', async () => {
    const { proxy, over } = await proxied({ partLimits: limits });
    const given = options(BIG);
    const file = await over.openDestination('slow-source', given);
    const write = (at: number) => file.write(at, content.subarray(at, at + 2 * MiB));
    const before = proxy.forwarded.up;
    await write(0);
    await vi.waitUntil(() => proxy.forwarded.up - before > 2 * MiB, 30_000);
    proxy.cut();
    await vi.waitUntil(async () => (await over.connections()) === 0, 30_000);
    const rest = write(2 * MiB).then(() => write(4 * MiB));
    await expect(rest).rejects.toMatchObject({
      name: 'FileError',
      code: 'connection_failed',
      step: 'transfer',
    });
    await abandon(over, file, 'slow-source', given);
  });

  test.each([
    { operation: 'UploadPart', kind: 'cut', afterBytes: 3 * MiB, code: 'connection_failed' },
    { operation: 'UploadPart', kind: 'error', error: 'SlowDown', code: 'timeout' },
  ] as const)('fail when the server fails: $kind', async (fault) => {
    server.fault(
      fault.kind === 'cut'
        ? { operation: 'UploadPart', kind: 'cut', afterBytes: fault.afterBytes }
        : { operation: 'UploadPart', kind: 'error', code: fault.error },
    );
    await expect(upload(endpoint({ partLimits: limits }), 'x', content)).rejects.toMatchObject({
      name: 'FileError',
      code: fault.code,
    });
  });
});

describe('connections', () => {
  test('never exceed the limit, and are kept', async () => {
    const { proxy, over } = await proxied({ maxConnections: 3 });
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
    const { proxy, over } = await proxied();
    const content = randomBytes(BIG);
    await upload(over, 'anew', content);
    await download(over, 'anew');
    proxy.cut();
    expect(content.equals(await download(over, 'anew'))).toBe(true);
  });

  test('do not delay an aborted request', async () => {
    const { proxy, over } = await proxied({ maxConnections: 1 });
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

test('memory shared between threads is read and filled', async () => {
  const content = randomBytes(BIG);
  const over = endpoint();
  const file = await over.openDestination('shared', options(BIG));
  await writeFrom(file, Buffer.from(shared(content).buffer));
  await file.commit(whole(content));
  const source = await over.openSource('shared', never);
  const target = Buffer.from(new SharedArrayBuffer(BIG));
  await readAll(source, target);
  await source.close();
  expect(content.equals(target)).toBe(true);
});
