import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { LeaseLost } from '../../../../src/processes/mover/failure.ts';
import { endpointOn as azureEndpointOn } from '../../../adapters/files/azure/endpoint-on.ts';
import { download, upload } from '../../../adapters/files/contract.ts';
import { endpointOn as s3EndpointOn } from '../../../adapters/files/s3/endpoint-on.ts';
import { shareAzurite, whyNoAzurite } from '../../../support/file-servers/azure/azurite.ts';
import { shareRadosgw, whyNoRadosgw } from '../../../support/file-servers/s3/radosgw.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { startTcpProxy, type TcpProxy } from '../../../support/network/tcp-proxy.ts';
import { LONG, longUnless } from '../../../support/run/long.ts';
import { moveWith } from '../../../support/service/move.ts';

const never = new AbortController().signal;
const STALL_MS = 3_000;

/** An object store, and a second way to it that is slow. */
interface Place {
  endpoint: FileEndpoint;
  slow: FileEndpoint;
  proxy: TcpProxy;
}

async function s3On(server: Parameters<typeof s3EndpointOn>[0]): Promise<Place> {
  const proxy = await startTcpProxy({ host: '127.0.0.1', port: portOf(server.endpointUrl) });
  const at = { ...server, endpointUrl: `http://127.0.0.1:${proxy.port}` };
  const slow = s3EndpointOn(at, { timeouts: { stallMs: STALL_MS } });
  return { endpoint: s3EndpointOn(server), slow, proxy };
}

async function onCeph(): Promise<Place> {
  const server = { ...(await shareRadosgw()), bucket: `late-${randomUUID()}` };
  await server.createBucket(server.bucket);
  return s3On(server);
}

async function onStrictS3(): Promise<Place> {
  const server = await startS3Server();
  server.createBucket('bucket');
  onTestFinished(server.stop);
  return s3On(server);
}

async function onAzurite(): Promise<Place> {
  const azurite = await shareAzurite();
  await azurite.createContainer('container');
  onTestFinished(azurite.stop);
  const proxy = await startTcpProxy({ host: '127.0.0.1', port: portOf(azurite.endpointUrl) });
  const endpointUrl = azurite.endpointUrl.replace(/:\d+\//, `:${proxy.port}/`);
  const slow = azureEndpointOn({ ...azurite, endpointUrl }, { timeouts: { stallMs: STALL_MS } });
  return { endpoint: azureEndpointOn(azurite), slow, proxy };
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}

for (const [name, whyNot, start] of [
  ['S3 on Ceph', await whyNoRadosgw(), onCeph],
  ['S3 as strict as Amazon', null, onStrictS3],
  ['Azure', await whyNoAzurite(), onAzurite],
] as const)
  describe.skipIf(whyNot)(
    whyNot ? `${name} (${whyNot})` : name,
    longUnless(name === 'S3 on Ceph'),
    () => {
      async function startOpen(): Promise<Place> {
        const place = await start();
        onTestFinished(async () => {
          for (const each of [place.endpoint, place.slow]) await each.close();
          await place.proxy.close();
        });
        return place;
      }

      for (const [what, before, saves, options] of [
        ['a new file', null, 1, {}],
        ['a file that replaced another one', Buffer.from('there before'), 1, LONG],
        ['a file that replaced the same one', Buffer.from('there before'), 2, {}],
      ] as const) {
        const title = `a late request of a broken connection does not replace ${what}`;
        test(title, options, async () => {
          const { endpoint, slow, proxy } = await startOpen();
          const [older, newer] = [Buffer.from('older'), Buffer.from('newer')];
          await upload(endpoint, 'from', older);
          if (before) await upload(endpoint, 'to', before);

          let commits = 0;
          const late = proxy.holdWhen(() => commits === saves, 'up');
          const moved = moveWith({
            source: { endpoint, path: 'from' },
            destination: { endpoint: slow, path: 'to' },
            async save(record) {
              if (record.committing) commits++;
              return true;
            },
          });
          const release = await late;
          await upload(endpoint, 'from', newer);
          await moved;
          expect(String(await download(endpoint, 'to'))).toBe('newer');
          void release();
          await sleep(500);
          expect(String(await download(endpoint, 'to'))).toBe('newer');
        });
      }

      test('writers that replace one file at the same moment all succeed', async () => {
        const { endpoint } = await startOpen();
        const contents = Array.from({ length: 8 }, (_, writer) => `of writer ${writer}`);
        // The first rounds show how Ceph wants its conditions.
        for (let round = 1; round <= 6; round++) {
          const name = `to-${round}`;
          await Promise.all(contents.map((each) => upload(endpoint, name, Buffer.from(each))));
          expect(contents).toContain(String(await download(endpoint, name)));
        }
      });

      test('a late request of a broken connection does not delete a newer source', async () => {
        const { endpoint, slow, proxy } = await startOpen();
        await upload(endpoint, 'from', Buffer.from('older'));
        const { identity, close } = await endpoint.openSource('from', never);
        await close();
        const options = { transferId: newId('txr'), identity, moveTo: null, signal: never };
        const { down } = proxy.forwarded;
        // The first answer says that the source is the one that was copied.
        const late = proxy.holdWhen(() => proxy.forwarded.down > down, 'up');
        const stalled = expect(slow.dispose('from', options)).rejects.toMatchObject({
          code: 'stalled',
        });
        const release = await late;
        await stalled;
        expect(await endpoint.dispose('from', options)).toEqual({ outcome: 'deleted' });
        // Ceph compares whole seconds.
        await sleep(1_100);
        await upload(endpoint, 'from', Buffer.from('newer'));
        void release();
        await sleep(500);
        expect(String(await download(endpoint, 'from'))).toBe('newer');
      });

      test('a move does not copy a newer source', async () => {
        const { endpoint, slow, proxy } = await startOpen();
        await upload(endpoint, 'from', Buffer.from('older'));
        const { identity, close } = await endpoint.openSource('from', never);
        await close();
        const options = { transferId: newId('txr'), identity, moveTo: 'done/', signal: never };
        const { down } = proxy.forwarded;
        const late = proxy.holdWhen(() => proxy.forwarded.down > down, 'up');
        const disposing = slow.dispose('from', options);
        const release = await late;
        await upload(endpoint, 'from', Buffer.from('newer'));
        void release();
        await expect(disposing).rejects.toMatchObject({ code: 'source_changed' });
        expect(String(await download(endpoint, 'from'))).toBe('newer');
        expect(await endpoint.list('done', never)).toEqual([]);
      });

      test('a move that wakes up late keeps what another process has moved', async () => {
        const { endpoint, slow, proxy } = await startOpen();
        await upload(endpoint, 'from', Buffer.from('older'));
        const { identity, close } = await endpoint.openSource('from', never);
        await close();
        const options = { transferId: newId('txr'), identity, moveTo: 'done/', signal: never };
        const moved = () => download(endpoint, 'done/from').then(String, () => null);
        const late = proxy.holdWhen(async () => (await moved()) !== null, 'up');
        const disposing = slow.dispose('from', options);
        const release = await late;
        expect(await endpoint.dispose('from', options)).toEqual({ outcome: 'moved', name: 'from' });
        await sleep(1_100);
        await upload(endpoint, 'from', Buffer.from('newer'));
        void release();
        expect(await disposing).toMatchObject({ outcome: 'changed' });
        expect(await moved()).toBe('older');
      });

      test.each([
        ['', null],
        [' in place of another one', Buffer.from('there before')],
      ])(
        'a mover that lost its claim does not replace the file of its successor%s',
        async (_, before) => {
          const { endpoint } = await startOpen();
          await upload(endpoint, 'from', Buffer.from('older'));
          if (before) await upload(endpoint, 'to', before);
          let commits = 0;
          const moved = moveWith({
            source: { endpoint, path: 'from' },
            destination: { endpoint, path: 'to' },
            async save({ committing }) {
              if (!committing) return true;
              // It freezes after it has saved the record. Meanwhile the successor moves a newer file.
              if (++commits === 1) await upload(endpoint, 'to', Buffer.from('newer'));
              return commits === 1;
            },
          });
          await expect(moved).rejects.toThrow(LeaseLost);
          expect(String(await download(endpoint, 'to'))).toBe('newer');
        },
      );
    },
  );

test('a late completion does not replace a newer file, though its upload was hard to end', async () => {
  const server = await startS3Server();
  server.createBucket('bucket');
  const { endpoint, slow, proxy } = await s3On(server);
  onTestFinished(async () => {
    for (const each of [endpoint, slow]) await each.close();
    await proxy.close();
    await server.stop();
  });
  const [older, newer] = [randomBytes(9 << 20), randomBytes(9 << 20)];
  await upload(endpoint, 'from', older);
  let committing = false;
  const late = proxy.holdWhen(() => committing, 'up');
  const moved = moveWith({
    source: { endpoint, path: 'from' },
    destination: { endpoint: slow, path: 'to' },
    async save(record) {
      committing = record.committing !== null;
      return true;
    },
  });
  const release = await late;
  // The SDK tries thrice.
  server.fault({
    operation: 'AbortMultipartUpload',
    kind: 'error',
    code: 'ServiceUnavailable',
    times: 6,
  });
  await upload(endpoint, 'from', newer);
  await moved;
  expect(newer.equals(await download(endpoint, 'to'))).toBe(true);
  void release();
  await sleep(500);
  expect(newer.equals(await download(endpoint, 'to'))).toBe(true);
});
