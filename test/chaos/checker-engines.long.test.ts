import { rmSync } from 'node:fs';
import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startFakeEventStoreDb } from '../support/event-store/fake/server.ts';
import { shareAzurite, whyNoAzurite } from '../support/file-servers/azure/azurite.ts';
import { describeTransfers } from '../support/service/transfers.ts';
import { check } from './checker/check.ts';
import { openStorage, type StoredFile } from './checker/files/storage.ts';
import { write } from './self-test/evidence.ts';
import { type SmallRun, startSmallRun } from './self-test/small-run.ts';

await describeTransfers('the checker of a chaos run on the EventStoreDB engine', () => {
  const closers: (() => Promise<unknown>)[] = [];
  let run: SmallRun;
  beforeAll(async () => {
    // Uses a real server if the settings name one, as the tests of the engine do.
    const real = process.env.EVENTSTORE_URL;
    const server = real ? null : await startFakeEventStoreDb();
    if (server) closers.push(async () => server.stop());
    run = await startSmallRun({
      EVENTSTORE_URL: real ?? (server?.url as string),
      WAYBILL_STREAM_PREFIX: `run${Date.now()}_`,
    });
    closers.push(run.close);
  });
  afterAll(async () => {
    for (const close of closers.reverse()) await close();
  });

  it('reads the log there, and finds nothing wrong without damage', async () => {
    const folder = write(run.evidence);
    const { findings, figures } = await check(folder);
    expect(findings).toEqual([]);
    expect(figures).toMatchObject({ transfers: 15, outcomes: 15, files: 10, api_details: 15 });
    expect(figures.api_events).toBe(figures.events);
    await run.installation
      .sql`update read.transfers set revision = 2 where transfer_id = ${run.ids.plain}`;
    expect((await check(folder, ['read'])).findings).toMatchObject([
      { check: 'read.transfers', subject: run.ids.plain },
    ]);
    rmSync(folder, { recursive: true });
  });
});

const whyNot = await whyNoAzurite();

describe.skipIf(whyNot)(
  `the checker's reading of Azure${whyNot ? ` (skipped: ${whyNot})` : ''}`,
  () => {
    it('lists and reads the blobs below a prefix, without staged blocks', async () => {
      const { endpointUrl: url, account, accountKey, createContainer, stop } = await shareAzurite();
      await createContainer('container');
      const container = new BlobServiceClient(
        url,
        new StorageSharedKeyCredential(account, accountKey),
      ).getContainerClient('container');
      await container.getBlockBlobClient('in/a').uploadData(Buffer.from('content'));
      await container.getBlockBlobClient('elsewhere').uploadData(Buffer.from('more'));
      await container
        .getBlockBlobClient('in/staged')
        .stageBlock(Buffer.from('block').toString('base64'), 'staged', 6);
      const storage = openStorage(
        { name: 'cloud', kind: 'azure', url, container: 'container', account, accountKey },
        'in/',
      );
      const found: StoredFile[] = [];
      for await (const file of storage.list()) found.push(file);
      expect(found).toMatchObject([{ path: 'a', size: 7 }]);
      const chunks: Buffer[] = [];
      for await (const chunk of await storage.read(found[0] as StoredFile)) chunks.push(chunk);
      expect(Buffer.concat(chunks).toString()).toBe('content');
      await stop();
    });
  },
);
