import { randomBytes, randomUUID } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutBucketVersioningCommand,
  PutObjectCommand,
  PutObjectLockConfigurationCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { createEndpointSink } from '../../../../src/processes/proof/endpoint-sink.ts';
import { type Ceph, shareRadosgw, whyNoRadosgw } from '../../../support/file-servers/s3/radosgw.ts';
import { startTcpProxy } from '../../../support/network/tcp-proxy.ts';
import { describeWithPostgres } from '../../../support/postgres/test-database.ts';
import {
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../../../support/service/installation.ts';
import { abandon, download, options, upload, whole, writeFrom } from '../contract.ts';
import { clientOn, endpointOn } from './endpoint-on.ts';

const whyNot = await whyNoRadosgw();
const never = new AbortController().signal;
const MiB = 1 << 20;
const content = randomBytes(20 * MiB + 5);

/** This server knows no CRC, so the client compares MD5. */
describe.skipIf(whyNot !== null)(whyNot === null ? 'on Ceph' : `on Ceph (${whyNot})`, () => {
  let server: Ceph & { bucket: string };
  let client: S3Client;
  let endpoint: FileEndpoint;
  beforeAll(async () => {
    server = { ...(await shareRadosgw()), bucket: `bucket-${randomUUID()}` };
    await server.createBucket(server.bucket);
    client = clientOn(server);
    endpoint = endpointOn(server);
  });
  afterAll(async () => {
    client?.destroy();
    await endpoint?.close();
    await server?.stop();
  });

  async function get(key: string): Promise<Buffer> {
    const { Body } = await client.send(new GetObjectCommand({ Bucket: server.bucket, Key: key }));
    return Buffer.from((await Body?.transformToByteArray()) as Uint8Array);
  }

  test.each([
    ['one chunk a part', {}],
    ['several chunks a part', { partLimits: { chunkSize: 2 * MiB, maxParts: 4 } }],
  ])('chunks are sent, %s, and compared by their MD5', async (_name, given) => {
    const other = endpointOn(server, given);
    expect(await upload(other, 'compared', content)).toMatchObject({
      size: content.length,
      destinationChecksum: 'md5',
      atomicReplace: true,
    });
    expect(content.equals(await get('compared'))).toBe(true);
    await other.close();
  });

  test('a part that changes on its way is rejected', async () => {
    const given = options(content.length);
    const file = await endpoint.openDestination('corrupt', given);
    const chunk = Buffer.from(content.subarray(0, file.chunkSize));
    const writing = file.write(0, chunk);
    chunk[5]! ^= 1;
    await expect(writing).rejects.toMatchObject({ code: 'checksum_mismatch' });
    await abandon(endpoint, file, 'corrupt', given);
  });

  /** Commits an object, and runs `act` after the server has stored it and before it is looked at. */
  async function commitWhile(name: string, act: () => Promise<unknown>) {
    const { hostname, port } = new URL(server.endpointUrl);
    const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
    const through = endpointOn({ ...server, endpointUrl: `http://${hostname}:${proxy.port}` });
    const file = await through.openDestination(name, options(content.length));
    await writeFrom(file, content);
    const isThere = () =>
      client.send(new HeadObjectCommand({ Bucket: server.bucket, Key: name })).then(
        () => true,
        () => false,
      );
    const held = proxy.holdWhen(isThere, 'down');
    const committing = file.commit(whole(content));
    const release = await held;
    await act();
    void release();
    const proof = await committing;
    await file.close();
    await through.close();
    await proxy.close();
    return proof;
  }

  test('a commit succeeds if another writer replaces the object before it is looked at', async () => {
    const object = { Bucket: server.bucket, Key: 'raced', Body: 'of another writer' };
    const proof = await commitWhile('raced', () => client.send(new PutObjectCommand(object)));
    expect(proof).toMatchObject({ size: content.length, atomicReplace: true });
    expect(String(await get('raced'))).toBe('of another writer');
  });

  test('a commit succeeds if a consumer takes the object before it is looked at', async () => {
    const object = { Bucket: server.bucket, Key: 'taken' };
    const proof = await commitWhile('taken', () => client.send(new DeleteObjectCommand(object)));
    expect(proof).toMatchObject({ size: content.length, version: expect.any(String) });
  });

  test('a commit succeeds if the user may not read', async () => {
    const bucket = `write-only-${randomUUID()}`;
    await server.createBucket(bucket);
    await server.deny(bucket, 's3:GetObject');
    const writing = endpointOn({ ...server, bucket });
    for (const written of [content, Buffer.from('small'), Buffer.from('newer')]) {
      const { size, version } = await upload(writing, 'file', written);
      expect(size).toBe(written.length);
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
      expect(Contents[0]?.ETag).toBe(version);
    }
    await writing.close();
  });

  test('an upload starts over if the user may not list its parts', async () => {
    const bucket = `unlisted-${randomUUID()}`;
    await server.createBucket(bucket);
    await server.deny(bucket, 's3:ListMultipartUploadParts');
    const over = endpointOn({ ...server, bucket });
    const given = options(content.length);
    const first = await over.openDestination('file', given);
    await writeFrom(first, content);
    const resume = await first.resumePoint(content.length);
    await first.close();
    const second = await over.openDestination('file', { ...given, resume });
    expect(second.resumedFrom).toBe(0);
    await writeFrom(second, content);
    expect(await second.commit(whole(content))).toMatchObject({ size: content.length });
    await second.close();
    await over.close();
    const { Uploads } = await client.send(new ListMultipartUploadsCommand({ Bucket: bucket }));
    expect(Uploads ?? []).toEqual([]);
  });

  test('a wrong secret is rejected', async () => {
    const credentials = { access_key_id: server.accessKeyId, secret_access_key: 'wrong' };
    const refused = endpointOn(server, { credentials });
    await expect(upload(refused, 'x', content)).rejects.toMatchObject({
      code: 'auth_failed',
      message: expect.stringMatching(/^Authentication failed: .*computed another signature/),
    });
    await refused.close();
  });

  test('a name that is too long is a permanent error', async () => {
    const tooLong = 'x'.repeat(1_025);
    await expect(endpoint.openSource(tooLong, never)).rejects.toMatchObject({
      code: 'source_not_found',
    });
    await expect(upload(endpoint, tooLong, Buffer.from('x'))).rejects.toMatchObject({
      code: 'permission_denied',
      message: expect.stringMatching(/: the key may be too long$/),
    });
  });

  test('an upload that another client aborted starts over', async () => {
    const transferId = newId('txr');
    const first = await endpoint.openDestination(
      'aborted',
      options(content.length, { transferId }),
    );
    await writeFrom(first, content);
    const resume = await first.resumePoint(content.length);
    const { upload_id: UploadId } = resume.state as { upload_id: string };
    await client.send(
      new AbortMultipartUploadCommand({ Bucket: server.bucket, Key: 'aborted', UploadId }),
    );
    await expect(first.commit(whole(content))).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    await first.close();
    const second = await endpoint.openDestination(
      'aborted',
      options(content.length, { transferId, resume }),
    );
    expect(second.resumedFrom).toBe(0);
    await writeFrom(second, content);
    await second.commit(whole(content));
    await second.close();
    expect(content.equals(await get('aborted'))).toBe(true);
  });

  test('a move finds its copy of an object in parts if the answer was lost', async () => {
    const { hostname: host, port } = new URL(server.endpointUrl);
    const proxy = await startTcpProxy({ host, port: Number(port) });
    const over = endpointOn({ ...server, endpointUrl: `http://127.0.0.1:${proxy.port}` });
    try {
      await upload(endpoint, 'moving/a', content, { modifiedAt: '1700000000' });
      const { identity } = await over.openSource('moving/a', never);
      const copied = () =>
        get('moving/done/a').then(
          () => true,
          () => false,
        );
      const lost = proxy.cutWhen(copied, 'down');
      const moving = { transferId: newId('txr'), identity, moveTo: 'moving/done/', signal: never };
      expect(await over.dispose('moving/a', moving)).toMatchObject({ outcome: 'moved', name: 'a' });
      await lost;
      const names = async (folder: string) =>
        (await endpoint.list(folder, never)).map(({ name }) => name);
      expect(await names('moving')).toEqual(['done']);
      expect(await names('moving/done')).toEqual(['a']);
      const moved = await endpoint.openSource('moving/done/a', never);
      expect(moved.modifiedAt).toBe('1700000000');
    } finally {
      await over.close();
      await proxy.close();
    }
  });

  describe.each(['Enabled', 'Suspended'] as const)('in a bucket with versions: %s', (Status) => {
    let versioned: FileEndpoint;
    let Bucket: string;
    beforeAll(async () => {
      Bucket = `versions-${randomUUID()}`;
      await server.createBucket(Bucket);
      await client.send(
        new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: 'Enabled' } }),
      );
      // An older version that a delete must not bring back.
      await client.send(new PutObjectCommand({ Bucket, Key: 'file', Body: 'first' }));
      await client.send(
        new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status } }),
      );
      versioned = endpointOn({ ...server, bucket: Bucket });
    });
    afterAll(() => versioned?.close());

    test('a small file is stored again after a consumer has deleted it', async () => {
      for (const written of ['second', 'third', 'fourth']) {
        await upload(versioned, 'file', Buffer.from(written));
        expect(String(await download(versioned, 'file'))).toBe(written);
        await client.send(new DeleteObjectCommand({ Bucket, Key: 'file' }));
      }
    });

    test('a source that was copied is deleted', async () => {
      await upload(versioned, 'file', Buffer.from('a source'));
      await upload(versioned, 'alone', Buffer.from('a source without an older version'));
      for (const name of ['file', 'alone']) {
        const { identity, close } = await versioned.openSource(name, never);
        await close();
        const options = { transferId: newId('txr'), identity, moveTo: null, signal: never };
        expect(await versioned.dispose(name, options)).toEqual({ outcome: 'deleted' });
        expect(await versioned.dispose(name, options)).toMatchObject({ outcome: 'gone' });
      }
      expect(await versioned.list('', never)).toEqual([]);
    });
  });

  describeWithPostgres('a sink of checkpoints', () => {
    let installation: TestInstallation;
    beforeAll(async () => {
      installation = await openTestInstallation();
    });
    afterAll(() => installation?.close());

    test('writes files that a bucket with object lock and a default retention locks', async () => {
      const Bucket = `${server.bucket}-locked`;
      await client.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
      const DefaultRetention = { Mode: 'COMPLIANCE', Days: 1 } as const;
      await client.send(
        new PutObjectLockConfigurationCommand({
          Bucket,
          ObjectLockConfiguration: { ObjectLockEnabled: 'Enabled', Rule: { DefaultRetention } },
        }),
      );
      await configureEndpoint(installation, {
        name: 'archive',
        protocol: 's3',
        bucket: Bucket,
        region: server.region,
        endpoint_url: server.endpointUrl,
        force_path_style: true,
        access_key_id: server.accessKeyId,
        secret_access_key: server.secretAccessKey,
      });
      const { vault, commands } = installation;
      const deps = { vault, endpoints: commands.endpoints };
      const sink = createEndpointSink(deps, 's3://archive/checkpoints');
      await sink.keep({ size: 7, note: 'a note\n' }, async () => []);
      expect(await sink.newest()).toBe('a note\n');

      const Key = 'checkpoints/checkpoint-000000000007.txt';
      const { VersionId, ObjectLockMode } = await client.send(
        new HeadObjectCommand({ Bucket, Key }),
      );
      expect(ObjectLockMode).toBe('COMPLIANCE');
      await expect(
        client.send(new DeleteObjectCommand({ Bucket, Key, VersionId })),
      ).rejects.toMatchObject({ name: 'AccessDenied' });
    });
  });
});
