import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { peakBytes, resetPeak } from '../../bench/support/usage.ts';
import { createFolderBatch, reserveBatch } from '../../src/commands/create-batch.ts';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';
import { type SpawnedService, spawnService } from '../support/service/roles.ts';
import { describeTransfers, until } from '../support/service/transfers.ts';

const MiB = 1 << 20;
const LOOK_MS = 10_000;
/** What a process that has moved nothing yet still gains: code, caches and pools. */
const WARM = 0.25;
const MAY_GROW_MIB = 60;
/** How long none may complete: listing all and creating the first takes minutes too. */
const PATIENCE_SECONDS = 600;

// To write and remove so many files takes minutes on a busy machine.
vi.setConfig({ hookTimeout: 600_000 });

/** Tests that a batch of a folder with many files takes no more memory, the longer it lasts. */
export async function describeLargeBatch(files: number): Promise<void> {
  await describeTransfers(`a batch of a folder with ${files} files`, () => {
    let installation: TestInstallation;
    let alpha: SftpServer;
    let beta: SftpServer;
    let service: SpawnedService;

    beforeAll(async () => {
      [installation, alpha, beta] = await Promise.all([
        openTestInstallation(),
        startSftpServer(),
        startSftpServer(),
      ]);
      await Promise.all([
        configureSftp(installation, 'alpha', alpha),
        configureSftp(installation, 'beta', beta),
      ]);
      mkdirSync(join(alpha.root, 'large'));
      for (let i = 0; i < files; i++) writeFileSync(join(alpha.root, 'large', `${i}`), `${i}`);
      service = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });
    });
    afterAll(async () => {
      await service?.kill();
      await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
    });

    test('moves each once, in memory that stays the same', async (ctx) => {
      if (peakBytes(service.pid) === null)
        return ctx.skip('this system does not report peak memory');
      const request = batchRequest.parse({
        source_uri: 'sftp://alpha/large/',
        destination_uri: 'sftp://beta/large/',
      });
      const { commands, sql } = installation;
      const { state } = await createFolderBatch(
        commands,
        'acc_default',
        request,
        CAUSE,
        reserveBatch(),
      );
      const began = Date.now();
      const looks: { seconds: number; completed: number; mib: number }[] = [];
      const look = async () => {
        resetPeak(service.pid);
        await sleep(LOOK_MS);
        const [row] = await sql<{ completed: number; ended: boolean }[]>`
          select b.ended, (select coalesce(sum(transfers), 0)::integer from read.batch_counts c
                            where c.batch_id = b.batch_id and status = 'completed') as completed
            from read.batches b where batch_id = ${state.batch_id}`;
        const mib = Math.round((peakBytes(service.pid) as number) / MiB);
        const seconds = Math.round((Date.now() - began) / 1_000);
        looks.push({ seconds, completed: row?.completed ?? 0, mib });
        console.log(JSON.stringify(looks.at(-1)));
        return row?.ended;
      };
      await until('the batch ends', look, PATIENCE_SECONDS, () => looks.at(-1)?.completed);
      const [end] = await sql<{ state: unknown; transfers: number }[]>`
        select state, (select count(distinct transfer_id)::integer from read.transfers)
                 as transfers
          from read.batches where batch_id = ${state.batch_id}`;
      expect(end).toMatchObject({
        state: { status: 'completed', items: files, rejected: 0 },
        transfers: files,
      });
      expect(readdirSync(join(beta.root, 'large'))).toHaveLength(files);
      const largest = (some: typeof looks) => Math.max(...some.map(({ mib }) => mib));
      const [warm, late] = [
        looks.filter(({ completed }) => completed > WARM * files && completed < 0.5 * files),
        looks.filter(({ completed }) => completed >= 0.5 * files),
      ];
      expect(largest(late) - largest(warm)).toBeLessThan(MAY_GROW_MIB);
    });
  });
}
