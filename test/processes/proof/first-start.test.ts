import { createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SIGNING_KEYS } from '../../../src/domain/events/streams.ts';
import { verifyReceipt } from '../../../src/domain/proof/receipt.ts';
import { openInstallation } from '../../../src/installation.ts';
import { checkpointNow } from '../../../src/processes/proof/checkpoint-now.ts';
import { makeReceipt } from '../../../src/projections/proof/receipts.ts';
import { type Service, startService } from '../../../src/service.ts';
import { changeLog, type GivenEvent, replaceLog } from '../../support/event-store/replace-log.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';

/**
 * What `waybill audit export` printed in the last version without a tree: two transfers that
 * completed, one that failed and one that was cancelled.
 */
const RECORDED = join(import.meta.dirname, 'log-without-tree.ndjson');

describeWithPostgres('the log of a version without a tree', () => {
  let installation: TestInstallation;
  let service: Service;
  let recorded: GivenEvent[];
  beforeAll(async () => {
    installation = await openTestInstallation();
    recorded = (await readFile(RECORDED, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const { sql, config } = installation;
    await changeLog(sql, async (tx) => {
      await tx`drop schema read cascade`;
      await tx`delete from work.checkpoints`;
      await replaceLog(tx, config.streamPrefix, recorded, BigInt(recorded.length));
    });
  });
  afterAll(async () => {
    await service?.stop();
    await installation?.close();
  });

  it('is folded at the first start, and gives receipts', async () => {
    const { config, logger, store } = installation;
    const opened = await openInstallation(config, logger);
    try {
      service = await startService(opened, ['projector']);
      await expect
        .poll(async () => (await store.read(SIGNING_KEYS)).length, { timeout: 30_000 })
        .toBe(1);
      const { size } = await checkpointNow(opened, CAUSE);
      // The key is a leaf too.
      expect(size).toBe(recorded.length + 1);
      const ended = recorded.filter(({ type }) => /completed|failed|cancelled/.test(type));
      expect(ended).toHaveLength(4);
      for (const { stream } of ended) {
        const answer = await makeReceipt(opened, 'acc_default', stream.slice('transfer-'.length));
        if (answer.state !== 'ready') throw new Error(`the receipt is ${answer.state}`);
        const { receipt } = answer;
        const verdict = verifyReceipt(receipt, createPublicKey(receipt.public_key));
        expect(verdict).toMatchObject({ ok: true });
        const events = recorded.filter((event) => event.stream === stream);
        expect(verdict.ok && verdict.events.map(({ id, data }) => ({ id, data }))).toEqual(
          events.map(({ id, data }) => ({ id, data })),
        );
      }
    } finally {
      await service?.stop();
      await opened.close();
    }
  });
});
