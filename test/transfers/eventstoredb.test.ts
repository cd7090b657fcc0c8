import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTransfers } from '../../src/commands/batches.ts';
import { createBatch, createFolderBatch, reserveBatch } from '../../src/commands/create-batch.ts';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import type { BatchListed } from '../../src/domain/batches/batch.ts';
import { verifyProjection } from '../../src/projections/rebuild/rebuild.ts';
import { listTransfers } from '../../src/projections/transfers/queries.ts';
import { startService } from '../../src/service.ts';
import { describeOnEventStoreDb } from '../support/event-store/eventstoredb.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../support/file-servers/sftp/server.ts';
import { flowsOf } from '../support/service/flows.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { until } from '../support/service/transfers.ts';

const why = await whyNoSftpServer();

describe.skipIf(why)(`a file that moves${why ? ` (skipped: ${why})` : ''}`, () => {
  describeOnEventStoreDb('the whole service', (start) => {
    const closers: (() => Promise<unknown>)[] = [];
    let installation: TestInstallation;
    let source: SftpServer;

    beforeAll(async () => {
      const log = await start();
      closers.push(() => log.close());
      installation = await openTestInstallation(log.settings);
      closers.push(() => installation.close());
      const service = await startService(installation, ['projector', 'mover', 'monitor']);
      closers.push(() => service.stop());
      const destination = await startSftpServer();
      closers.push(() => destination.stop());
      source = await startSftpServer();
      closers.push(() => source.stop());
      await configureSftp(installation, 'from', source);
      await configureSftp(installation, 'to', destination);
    });
    afterAll(async () => {
      for (const close of closers.reverse()) await close();
    });

    it('moves files, shows them, and matches its log', async () => {
      await writeFile(join(source.root, 'file'), 'through the other engine');
      const ids = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          submit(installation, 'sftp://from/file', `sftp://to/copy-${i}`),
        ),
      );
      for (const id of ids) await untilStatus(installation, id, 'completed');
      // They end in any order: the read model must show the end of each.
      for (const id of ids) {
        const position = (await installation.store.read(`transfer-${id}`)).at(-1)?.position ?? null;
        expect(await installation.commands.waitFor('transfers', position)).toBe(true);
      }
      const { total } = await listTransfers(
        installation.sql,
        'acc_default',
        { status: 'completed' },
        { limit: 1, offset: 0 },
      );
      expect(total).toBe(ids.length);
      expect(
        (await verifyProjection(installation, 'transfers', () => undefined)).differences,
      ).toEqual([]);
    });

    it('moves a batch, and creates none of its transfers twice', async () => {
      await mkdir(join(source.root, 'batch'));
      for (let i = 0; i < 20; i++) await writeFile(join(source.root, 'batch', `${i}.csv`), `${i}`);
      const { commands, store, sql } = installation;
      const folder = batchRequest.parse({
        source_uri: 'sftp://from/batch/',
        destination_uri: 'sftp://to/folder/',
      });
      const items = batchRequest.parse({
        items: Array.from({ length: 20 }, (_, i) => ({
          source_uri: `sftp://from/batch/${i}.csv`,
          destination_uri: 'sftp://to/items/',
        })),
      });
      const ofFolder = await createFolderBatch(
        commands,
        'acc_default',
        folder,
        CAUSE,
        reserveBatch(),
      );
      const { batch } = await createBatch(
        commands,
        'acc_default',
        items,
        CAUSE,
        reserveBatch(),
        false,
      );
      for (const { batch_id } of [ofFolder.state, batch.state]) {
        const stream = `batch-${batch_id}`;
        await until('the batch completes', async () => {
          const events = await store.read(stream);
          return events.some(({ type }) => type === 'batch.completed');
        });
        const events = await store.read(stream);
        expect(events.at(-1)?.data).toMatchObject({
          status: 'completed',
          counts: { items: 20, completed: 20 },
        });
        const pages = events
          .filter(({ type }) => type === 'batch.listed')
          .map(({ data }) => data as BatchListed);
        // As another process would that knows the pages alone.
        const again = { ...batch.state, batch_id };
        const { transferIds } = await createTransfers(commands, again, pages, CAUSE);
        expect(transferIds).toHaveLength(20);
        for (const id of transferIds) {
          const types = (await store.read(`transfer-${id}`)).map(({ type }) => type);
          expect(types.filter((type) => type === 'transfer.created')).toHaveLength(1);
          expect(types.at(-1)).toBe('transfer.completed');
        }
      }
      await until('the read model shows both', async () => {
        const rows = await sql`select from read.batches where status = 'completed'`;
        return rows.length === 2;
      });
      for (const name of ['batches', 'transfers'] as const)
        expect((await verifyProjection(installation, name, () => undefined)).differences).toEqual(
          [],
        );
    });

    it('runs a flow that takes each version once, and deletes what it has copied', async () => {
      const flows = flowsOf({ installation });
      await mkdir(join(source.root, 'flow'));
      const names = Array.from({ length: 20 }, (_, i) => `${i}.csv`);
      for (const name of names) await writeFile(join(source.root, 'flow', name), name);
      const id = await flows.create('flow', {
        source: { uri: 'sftp://from/flow/' },
        destination_uri: 'sftp://to/flow/',
        after: { source: 'delete' },
      });
      expect(await flows.run(id)).toMatchObject({ counts: { files: 20, completed: 20 } });
      await until('the sources are deleted', async () => {
        return (await readdir(join(source.root, 'flow'))).length === 0;
      });
      expect(await flows.run(id)).toMatchObject({ status: 'empty' });
      expect(await flows.taken(id)).toEqual(names.sort());
      await until('the read model shows the last step', async () => {
        const { differences } = await verifyProjection(installation, 'transfers', () => undefined);
        return differences.length === 0;
      });
      expect((await verifyProjection(installation, 'flows', () => undefined)).differences).toEqual(
        [],
      );
    });
  });
});
