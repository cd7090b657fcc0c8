import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyProjection } from '../../src/projections/rebuild.ts';
import { listTransfers } from '../../src/projections/transfer-queries.ts';
import { startService } from '../../src/service.ts';
import { describeOnEventStoreDb } from '../support/eventstoredb.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/installation.ts';
import { type SftpServer, startSftpServer, whyNoSftpServer } from '../support/sftp-server.ts';

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
      const service = await startService(installation, ['projector', 'mover']);
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
  });
});
