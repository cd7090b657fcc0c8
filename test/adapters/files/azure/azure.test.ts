import { randomBytes } from 'node:crypto';
import {
  BlobServiceClient,
  type ContainerClient,
  ContainerSASPermissions,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from '@azure/storage-blob';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { BlocksState } from '../../../../src/adapters/files/azure/blocks.ts';
import type { DestinationFile, FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import {
  type Azurite,
  shareAzurite,
  whyNoAzurite,
} from '../../../support/file-servers/azure/azurite.ts';
import { freePort } from '../../../support/network/free-port.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';
import { download, options, readAll, upload, whole, writeFrom } from '../contract.ts';
import { endpointOn, type Given } from './endpoint-on.ts';
import { startRelay } from './relay.ts';

const never = new AbortController().signal;
const MiB = 1 << 20;
const BIG = 20 * MiB + 5;
const whyNot = await whyNoAzurite();

describe.skipIf(whyNot !== null)(whyNot === null ? 'Azure' : `Azure (${whyNot})`, () => {
  let azurite: Azurite;
  let credential: StorageSharedKeyCredential;
  let container: ContainerClient;
  const ends: (() => unknown)[] = [];

  beforeAll(async () => {
    azurite = await shareAzurite();
    await azurite.createContainer('container');
    credential = new StorageSharedKeyCredential(azurite.account, azurite.accountKey);
    container = new BlobServiceClient(azurite.endpointUrl, credential).getContainerClient(
      'container',
    );
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    for (const end of ends.splice(0).reverse()) await end();
  });
  afterAll(() => azurite?.stop());

  function endpoint(given: Given = {}): FileEndpoint {
    const made = endpointOn(azurite, given);
    ends.push(() => made.close());
    return made;
  }

  function atPort(port: number): Given {
    const url = new URL(azurite.endpointUrl);
    url.port = String(port);
    return { settings: { endpoint_url: url.href } };
  }

  async function proxied(given: Given = {}): Promise<{ through: FileEndpoint; proxy: TcpProxy }> {
    const proxy = await startTcpProxy({
      host: '127.0.0.1',
      port: Number(new URL(azurite.endpointUrl).port),
    });
    ends.push(() => proxy.close());
    return { through: endpoint({ ...given, ...atPort(proxy.port) }), proxy };
  }

  function sas(permissions: string, expiresOn = new Date(Date.now() + 3_600_000)): Given {
    const values = {
      containerName: 'container',
      permissions: ContainerSASPermissions.parse(permissions),
      expiresOn,
    };
    return {
      credentials: { sas_token: generateBlobSASQueryParameters(values, credential).toString() },
    };
  }

  async function put(name: string, content: Buffer): Promise<void> {
    await container.getBlockBlobClient(name).upload(content, content.length);
  }

  const get = (name: string) => container.getBlobClient(name).downloadToBuffer();

  async function staged(name: string): Promise<number> {
    const { uncommittedBlocks = [] } = await container
      .getBlockBlobClient(name)
      .getBlockList('uncommitted');
    return uncommittedBlocks.length;
  }

  const errorOf = (promise: Promise<unknown>) =>
    promise.then(
      () => expect.fail('nothing was thrown'),
      (thrown: Error) => thrown,
    );

  /** Returns only what was saved, as if the process had ended. */
  async function abandonAfter(
    file: DestinationFile,
    content: Buffer,
    chunks: number,
  ): Promise<{ bytes: number; state: BlocksState }> {
    for (
      let offset = file.resumedFrom;
      offset < chunks * file.chunkSize;
      offset += file.chunkSize
    ) {
      await file.write(offset, content.subarray(offset, offset + file.chunkSize));
    }
    const resume = JSON.parse(JSON.stringify(await file.resumePoint(chunks * file.chunkSize)));
    await file.close();
    return resume;
  }

  describe('signing in', () => {
    test.each([
      ['another key', () => ({ credentials: { account_key: randomBytes(64).toString('base64') } })],
      ['an expired SAS', () => sas('rcwdl', new Date(Date.now() - 3_600_000))],
      [
        'a modified SAS',
        () => {
          const { sas_token } = sas('r').credentials as { sas_token: string };
          return { credentials: { sas_token: sas_token.replace('sp=r', 'sp=rcwdl') } };
        },
      ],
    ])('fails with %s, and the error names no secret', async (_name, given) => {
      const made: Given = given();
      const refused = endpoint(made);
      const asked = [
        refused.list('', never),
        refused.openSource('x', never),
        refused.remove('x', never),
        upload(refused, 'x', Buffer.from('small')),
        upload(refused, 'x', randomBytes(9 * MiB)),
      ];
      const secret = Object.values(made.credentials ?? {})[0] as string;
      for (const error of await Promise.all(asked.map(errorOf))) {
        expect(error).toMatchObject({
          name: 'FileError',
          code: 'auth_failed',
          step: 'sign_in',
          message: 'Authentication failed',
        });
        const told = `${error.stack} ${JSON.stringify(error)} ${error.cause}`;
        expect(told).not.toContain(secret);
        expect(told).not.toMatch(/sig=|SharedKey/);
      }
    });

    test('works with a SAS for reading only, which cannot write', async () => {
      await put('to-read', Buffer.from('content'));
      const reader = endpoint(sas('r'));
      expect(await download(reader, 'to-read')).toEqual(Buffer.from('content'));
      for (const size of [5, 9 * MiB]) {
        const error = await errorOf(upload(reader, 'not-written', randomBytes(size)));
        expect(error).toMatchObject({
          code: 'permission_denied',
          message: expect.stringMatching(/^not-written: .*not authorized/),
        });
        expect(`${error.stack} ${JSON.stringify(error)}`).not.toMatch(/sig=/);
      }
      await expect(reader.remove('to-read', never)).rejects.toMatchObject({
        code: 'permission_denied',
      });
      await expect(reader.list('', never)).rejects.toMatchObject({ code: 'permission_denied' });
    });

    test.each([true, false])(
      'works with a SAS for writing only, with overwrite %s',
      async (overwrite) => {
        const writer = endpoint(sas('cw'));
        for (const size of overwrite ? [5, 5, 9 * MiB] : [5, 9 * MiB]) {
          const content = randomBytes(size);
          const proof = await upload(writer, `written-${size}-${overwrite}`, content, {
            overwrite,
          });
          expect(proof).toMatchObject({ size, destinationChecksum: 'md5', atomicReplace: true });
          expect(content.equals(await get(`written-${size}-${overwrite}`))).toBe(true);
        }
        await expect(writer.openSource('written-5-true', never)).rejects.toMatchObject({
          code: 'permission_denied',
        });
      },
    );

    test('works with a SAS as portals show it, with its question mark', async () => {
      const { sas_token } = sas('rcw').credentials as { sas_token: string };
      await upload(
        endpoint({ credentials: { sas_token: `?${sas_token}` } }),
        'question-mark',
        Buffer.from('content'),
      );
      expect(await get('question-mark')).toEqual(Buffer.from('content'));
    });

    test('follows the settings, not the environment', async () => {
      for (const [name, value] of Object.entries({
        AZURE_STORAGE_CONNECTION_STRING: 'UseDevelopmentStorage=true',
        AZURE_STORAGE_ACCOUNT: 'other',
        AZURE_STORAGE_KEY: 'other',
        AZURE_STORAGE_SAS_TOKEN: 'other',
        HTTP_PROXY: 'http://127.0.0.1:9',
        http_proxy: 'http://127.0.0.1:9',
        ALL_PROXY: 'http://127.0.0.1:9',
        NODE_USE_ENV_PROXY: '1',
      })) {
        vi.stubEnv(name, value);
      }
      const content = randomBytes(BIG);
      const stubbed = endpoint();
      await upload(stubbed, 'environment', content);
      expect(content.equals(await download(stubbed, 'environment'))).toBe(true);
    });
  });

  describe('looking up', () => {
    test('a container of another name fails', async () => {
      const wrong = endpoint({ settings: { container: 'no-such-container' } });
      const notThere = {
        code: 'source_not_found',
        step: 'open',
        message: expect.stringContaining('ContainerNotFound'),
      };
      await expect(wrong.openSource('x', never)).rejects.toMatchObject(notThere);
      await expect(wrong.list('', never)).rejects.toMatchObject(notThere);
      await expect(upload(wrong, 'x', Buffer.from('x'))).rejects.toMatchObject({
        code: 'destination_not_found',
        step: 'commit',
      });
      await expect(upload(wrong, 'x', randomBytes(9 * MiB))).rejects.toMatchObject({
        code: 'destination_not_found',
        step: 'transfer',
      });
      await expect(
        upload(wrong, 'x', Buffer.from('x'), { overwrite: false }),
      ).rejects.toMatchObject({ code: 'destination_not_found' });
    });

    test('and removing an existing blob works', async () => {
      await put('removed', Buffer.from('content'));
      const made = endpoint();
      await made.remove('removed', never);
      await expect(made.remove('removed', never)).rejects.toMatchObject({
        code: 'source_not_found',
      });
    });

    test('names at the top of the container lists a folder that is also a blob', async () => {
      await azurite.createContainer('listed');
      const other = endpoint({ settings: { container: 'listed' } });
      for (const name of ['file', 'a folder/', 'a folder/below', 'ends.'])
        await upload(other, name, Buffer.from('12'));
      expect(
        (await other.list('', never)).map(({ name, type }) => `${type} ${name}`).sort(),
      ).toEqual(['directory a folder', 'file ends.', 'file file']);
      expect((await other.list('a folder', never)).map(({ name }) => name)).toEqual(['below']);
      expect(await other.list('no/such', never)).toEqual([]);
    });

    test('a folder lists no blob that stands for a folder', async () => {
      for (const [name, key] of [
        ['mounted/empty', 'hdi_isfolder'],
        ['mounted/full', 'hdi_isfolder'],
        ['mounted/copied', 'Hdi_isfolder'],
      ] as const)
        await container.getBlockBlobClient(name).upload('', 0, { metadata: { [key]: 'true' } });
      await container.getBlockBlobClient('mounted/full/file').upload('12', 2);
      await container.getBlockBlobClient('mounted/file').upload('', 0, { metadata: { a: 'b' } });
      expect(
        (await endpoint().list('mounted', never)).map(({ name, type }) => `${type} ${name}`).sort(),
      ).toEqual(['directory full', 'file file']);
    });

    test.each(['constructor', 'prototype'])(
      'a folder is listed although a blob has the metadata key %s',
      async (key) => {
        const put = (name: string, content: string, metadata: [string, string][] = []) =>
          container
            .getBlockBlobClient(`${key}/${name}`)
            .upload(content, content.length, { metadata: Object.fromEntries(metadata) });
        await put('named', '12', [[key, 'x']]);
        await put('empty', '', [[key, 'x']]);
        await put('folder', '', [['hdi_isfolder', 'true']]);
        await put('full', '', [['Hdi_isfolder', 'true']]);
        await put('full/file', '12');
        const listed = async (given?: Given) =>
          (await endpoint(given).list(key, never))
            .map(({ name, type, size }) => `${type} ${name} ${size}`)
            .sort();
        expect(await listed()).toEqual(['directory full null', 'file empty 0', 'file named 2']);
        expect(await listed(sas('l'))).toContain('file named 2');
      },
    );

    test('anything at a closed port fails', async () => {
      const nobody = endpoint(atPort(await freePort()));
      const refused = { name: 'FileError', code: 'connection_failed', step: 'connect' };
      await expect(nobody.openSource('x', never)).rejects.toMatchObject(refused);
      await expect(nobody.probe(never)).rejects.toMatchObject(refused);
    });
  });

  describe('writing', () => {
    test('works from shared memory, block by block', async () => {
      const content = randomBytes(BIG);
      const memory = Buffer.from(new SharedArrayBuffer(BIG));
      content.copy(memory);
      const made = endpoint();
      const file = await made.openDestination('shared', options(BIG));
      await writeFrom(file, memory);
      expect(await staged('shared')).toBe(3);
      expect(await file.commit(whole(content))).toMatchObject({
        size: BIG,
        destinationChecksum: 'md5',
        atomicReplace: true,
      });
      expect(content.equals(await get('shared'))).toBe(true);
      const source = await made.openSource('shared', never);
      memory.fill(0);
      await readAll(source, memory);
      expect(content.equals(memory)).toBe(true);
    });

    test('stores an MD5 with a small blob', async () => {
      const { destinationChecksum } = await upload(endpoint(), 'with-md5', Buffer.from('content'));
      expect(destinationChecksum).toBe('md5');
      const { contentMD5 } = await container.getBlobClient('with-md5').getProperties();
      expect(Buffer.from(contentMD5 as Uint8Array).toString('hex')).toBe(
        '9a0364b9e99bb480dd25e1f0284c8555',
      );
    });

    test('resumes after several claims, each of which the resume point names once', async () => {
      const content = randomBytes(6 * MiB + 5);
      const made = endpoint({ blockLimits: { chunkSize: MiB, maxBlocks: 100 } });
      const given = options(content.length);
      const first = await abandonAfter(await made.openDestination('claims', given), content, 2);
      const second = await made.openDestination('claims', {
        ...given,
        claimId: newId('clm'),
        resume: first,
      });
      expect(second.resumedFrom).toBe(2 * MiB);
      const resume = await abandonAfter(second, content, 5);
      expect(resume.state.written_by.map(([, blocks]) => blocks)).toEqual([2, 3]);
      const third = await made.openDestination('claims', {
        ...given,
        claimId: newId('clm'),
        resume,
      });
      expect(third.resumedFrom).toBe(5 * MiB);
      await writeFrom(third, content);
      await third.commit(whole(content));
      expect(content.equals(await get('claims'))).toBe(true);
    });

    // A move that reconnects after its source has changed sends other bytes under the same claim.
    test('a late block of an earlier opening does not get into the file', async () => {
      const [older, newer] = [randomBytes(3 * MiB), randomBytes(3 * MiB)];
      const made = endpoint({ blockLimits: { chunkSize: MiB, maxBlocks: 100 } });
      const given = options(newer.length);
      const earlier = await made.openDestination('late', given);
      const file = await made.openDestination('late', given);
      await writeFrom(file, newer);
      await earlier.write(MiB, older.subarray(MiB, 2 * MiB));
      await file.commit(whole(newer));
      expect(newer.equals(await get('late'))).toBe(true);
    });

    test('repeats blocks that the service lacks or holds with another size', async () => {
      const content = randomBytes(6 * MiB);
      const made = endpoint({ blockLimits: { chunkSize: MiB, maxBlocks: 100 } });
      const given = options(content.length);
      const resume = await abandonAfter(await made.openDestination('lacking', given), content, 4);
      const claimed = {
        bytes: 6 * MiB,
        state: { ...resume.state, written_by: [[resume.state.written_by[0]?.[0], 6]] },
      };
      expect(
        (await made.openDestination('lacking', { ...given, resume: claimed })).resumedFrom,
      ).toBe(4 * MiB);
      const blob = container.getBlockBlobClient('lacking');
      const { uncommittedBlocks = [] } = await blob.getBlockList('uncommitted');
      await blob.stageBlock(uncommittedBlocks[2]?.name as string, 'short', 5);
      const file = await made.openDestination('lacking', { ...given, resume: claimed });
      expect(file.resumedFrom).toBe(2 * MiB);
      await writeFrom(file, content);
      await file.commit(whole(content));
      expect(content.equals(await get('lacking'))).toBe(true);
    });

    test('starts over when another commit has discarded the blocks', async () => {
      const content = randomBytes(9 * MiB);
      const made = endpoint();
      const given = options(content.length);
      const file = await made.openDestination('discarded', given);
      await writeFrom(file, content);
      const resume = await file.resumePoint(content.length);
      await upload(made, 'discarded', randomBytes(9 * MiB));
      await expect(file.commit(whole(content))).rejects.toMatchObject({
        code: 'connection_failed',
        step: 'commit',
      });
      await file.close();
      expect((await made.openDestination('discarded', { ...given, resume })).resumedFrom).toBe(0);
    });

    test('keeps a blob that appeared meanwhile if it may not overwrite', async () => {
      const made = endpoint();
      const contents = [randomBytes(9 * MiB), randomBytes(9 * MiB)] as const;
      const [first, second] = await Promise.all(
        contents.map((content) =>
          made.openDestination('race', options(content.length, { overwrite: false })),
        ),
      );
      for (const [index, file] of [first, second].entries())
        await writeFrom(file as DestinationFile, contents[index] as Buffer);
      await (first as DestinationFile).commit(whole(contents[0]));
      await expect((second as DestinationFile).commit(whole(contents[1]))).rejects.toMatchObject({
        code: 'destination_exists',
        step: 'commit',
      });
      expect(contents[0].equals(await get('race'))).toBe(true);
    });

    test('fails beside the staged blocks of another program, with advice', async () => {
      await container
        .getBlockBlobClient('begun')
        .stageBlock(Buffer.from('short id').toString('base64'), 'another', 7);
      const begun = {
        code: 'permission_denied',
        step: 'transfer',
        message: expect.stringMatching(/another program.*InvalidBlobOrBlock/),
      };
      await expect(upload(endpoint(), 'begun', randomBytes(9 * MiB))).rejects.toMatchObject(begun);
    });

    test('fails in place of an append blob', async () => {
      await container.getAppendBlobClient('appended').create();
      await expect(upload(endpoint(), 'appended', randomBytes(BIG))).rejects.toMatchObject({
        code: 'permission_denied',
        message: expect.stringContaining('remove it, or choose another name'),
      });
    });

    test('fails for a leased blob', async () => {
      await put('leased', Buffer.from('before'));
      const lease = container.getBlobClient('leased').getBlobLeaseClient();
      await lease.acquireLease(-1);
      const denied = { code: 'permission_denied', message: expect.stringContaining('lease') };
      await expect(upload(endpoint(), 'leased', Buffer.from('after'))).rejects.toMatchObject(
        denied,
      );
      await expect(endpoint().remove('leased', never)).rejects.toMatchObject(denied);
      await lease.releaseLease();
    });

    test('uses blocks of several chunks if the blob would have too many blocks', async () => {
      const content = randomBytes(10 * MiB + 5);
      const made = endpoint({ blockLimits: { chunkSize: MiB, maxBlocks: 4 } });
      const given = options(content.length);
      const begun = await made.openDestination('joined', given);
      expect([begun.chunkSize, begun.parallelWrites]).toEqual([MiB, 1]);
      const resume = await abandonAfter(begun, content, 5);
      expect(resume.bytes).toBe(3 * MiB);
      const file = await made.openDestination('joined', {
        ...given,
        claimId: newId('clm'),
        resume,
      });
      expect(file.resumedFrom).toBe(3 * MiB);
      await writeFrom(file, content);
      expect(await staged('joined')).toBe(4);
      expect(await file.commit(whole(content))).toMatchObject({
        size: content.length,
        destinationChecksum: 'crc64',
        atomicReplace: true,
      });
      expect(content.equals(await get('joined'))).toBe(true);
    });

    test('rejects a size that no blob can have', async () => {
      const size = 50_000 * 4000 * MiB + 1;
      await expect(endpoint().openDestination('huge', options(size))).rejects.toMatchObject({
        code: 'file_too_large',
        step: 'open',
      });
    });

    test.each([
      ['put whole', 200_000, undefined],
      ['staged as a block', 9 * MiB, undefined],
      ['streamed as a block', 3 * MiB, { chunkSize: MiB, maxBlocks: 1 }],
    ])('rejects a blob that was damaged on its way, %s', async (name, size, blockLimits) => {
      const relay = await startRelay(Number(new URL(azurite.endpointUrl).port), { spoil: true });
      ends.push(relay.close);
      const spoilt = endpoint({ ...atPort(relay.port), ...(blockLimits ? { blockLimits } : {}) });
      await expect(upload(spoilt, name, randomBytes(size))).rejects.toMatchObject({
        code: 'checksum_mismatch',
      });
      expect(await container.getBlobClient(name).exists()).toBe(false);
    });
  });

  test('a blob that was replaced by one of the same size is not read', async () => {
    await put('replaced', randomBytes(100_000));
    const file = await endpoint().openSource('replaced', never);
    await put('replaced', randomBytes(100_000));
    await expect(file.read(0, new Uint8Array(100_000))).rejects.toMatchObject({
      code: 'source_changed',
      step: 'transfer',
    });
  });

  test('a commit succeeds if another writer replaces the blob before it is looked at', async () => {
    const content = randomBytes(3 * MiB);
    const { through, proxy } = await proxied({ blockLimits: { chunkSize: MiB, maxBlocks: 9 } });
    const file = await through.openDestination('raced', options(content.length));
    await writeFrom(file, content);
    const held = proxy.holdWhen(() => container.getBlobClient('raced').exists(), 'down');
    const committing = file.commit(whole(content));
    const release = await held;
    await put('raced', Buffer.from('of another writer'));
    void release();
    expect(await committing).toMatchObject({ size: content.length, atomicReplace: true });
    await file.close();
    expect(String(await get('raced'))).toBe('of another writer');
  });

  test('a commit succeeds if a consumer takes the blob before it is looked at', async () => {
    const content = randomBytes(3 * MiB);
    const { through, proxy } = await proxied({ blockLimits: { chunkSize: MiB, maxBlocks: 9 } });
    const file = await through.openDestination('taken', options(content.length));
    await writeFrom(file, content);
    const held = proxy.holdWhen(() => container.getBlobClient('taken').exists(), 'down');
    const committing = file.commit(whole(content));
    const release = await held;
    await container.deleteBlob('taken');
    void release();
    expect(await committing).toMatchObject({ size: content.length, version: expect.any(String) });
    await file.close();
  });

  describe('over a bad network', () => {
    test('a read continues after its connection breaks within a range', async () => {
      const content = randomBytes(8 * MiB);
      await put('cut-down', content);
      const { through, proxy } = await proxied();
      const file = await through.openSource('cut-down', never);
      const target = Buffer.alloc(content.length);
      proxy.cutAfter(3 * MiB, 'down');
      await file.read(0, target);
      expect(content.equals(target)).toBe(true);
      expect(proxy.forwarded.down).toBeGreaterThan(11 * MiB);
    });

    test('a write continues after its connection breaks within a block', async () => {
      const content = randomBytes(BIG);
      const { through, proxy } = await proxied();
      proxy.cutAfter(5 * MiB, 'up');
      await upload(through, 'cut-up', content);
      expect(content.equals(await get('cut-up'))).toBe(true);
    });

    test('a request fails when the server is gone', async () => {
      await put('gone', randomBytes(8 * MiB));
      const { through, proxy } = await proxied();
      const file = await through.openSource('gone', never);
      await proxy.refuse(true);
      proxy.cutAfter(MiB, 'down');
      await expect(file.read(0, Buffer.alloc(8 * MiB))).rejects.toMatchObject({
        name: 'FileError',
        code: 'connection_failed',
      });
    });

    test('a request fails when no byte moves', async () => {
      await put('stalled', randomBytes(8 * MiB));
      const { through, proxy } = await proxied({ timeouts: { stallMs: 1_000 } });
      const source = await through.openSource('stalled', never);
      const destination = await through.openDestination('stalled-up', options(BIG));
      proxy.stall(true);
      const stalled = { name: 'FileError', code: 'stalled', step: 'transfer' };
      await expect(source.read(0, Buffer.alloc(8 * MiB))).rejects.toMatchObject(stalled);
      await expect(destination.write(0, Buffer.alloc(8 * MiB))).rejects.toMatchObject(stalled);
    });

    test.each([
      ['with an MD5', MiB],
      ['without MD5', BIG],
    ])('a move finds its copy of a blob %s if the answer was lost', async (kind, size) => {
      const { through, proxy } = await proxied();
      const [name, archive] = [`moved ${kind}/a.csv`, `moved ${kind}/done/`];
      await upload(through, name, randomBytes(size), { modifiedAt: '1700000000.5' });
      const { contentMD5 } = await container.getBlobClient(name).getProperties();
      expect(contentMD5 === undefined).toBe(size === BIG);
      const { identity } = await through.openSource(name, never);
      const moving = { transferId: newId('txr'), identity, moveTo: archive, signal: never };
      const copied = () => container.getBlobClient(`${archive}a.csv`).exists();
      const lost = proxy.cutWhen(copied, 'down');
      await expect(through.dispose(name, moving)).rejects.toMatchObject({
        code: 'connection_failed',
      });
      await lost;
      expect(await through.dispose(name, moving)).toEqual({ outcome: 'moved', name: 'a.csv' });
      const names = async (folder: string) =>
        (await through.list(folder, never)).map((entry) => entry.name);
      expect(await names(`moved ${kind}`)).toEqual(['done']);
      expect(await names(archive)).toEqual(['a.csv']);
      const moved = await through.openSource(`${archive}a.csv`, never);
      expect(moved.modifiedAt).toBe('1700000000.5');
    });

    test('an endpoint never exceeds its number of connections', async () => {
      const { through, proxy } = await proxied({ maxConnections: 2 });
      const contents = Array.from({ length: 4 }, () => randomBytes(9 * MiB));
      let most = 0;
      const watch = setInterval(() => {
        most = Math.max(most, proxy.connections);
      }, 1);
      ends.push(() => clearInterval(watch));
      await Promise.all(
        contents.map((content, index) => upload(through, `crowd-${index}`, content)),
      );
      const read = await Promise.all(
        contents.map((_, index) => download(through, `crowd-${index}`)),
      );
      expect(read.every((content, index) => content.equals(contents[index] as Buffer))).toBe(true);
      expect(most).toBe(2);
      expect(await through.connections()).toBeLessThanOrEqual(2);
      await through.close();
      await vi.waitFor(async () => expect(await through.connections()).toBe(0), 30_000);
    });
  });
});
