import { createPublicKey } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newId } from '../../../src/domain/ids.ts';
import { verifyReceipt } from '../../../src/domain/proof/receipt.ts';
import { SIGNING_KEYS, streamName } from '../../../src/domain/streams.ts';
import { openInstallation } from '../../../src/installation.ts';
import { checkpointNow } from '../../../src/processes/proof/checkpoint-now.ts';
import { makeReceipt } from '../../../src/projections/receipts.ts';
import { type Service, startService } from '../../../src/service.ts';
import { CAUSE, openTestInstallation, type TestInstallation } from '../../support/installation.ts';
import { describeWithPostgres } from '../../support/postgres.ts';
import { TRANSFER_EVENTS, transferCreated } from '../../support/samples.ts';
import { appendEvents } from '../../support/webhooks.ts';

describeWithPostgres('the log of a version without a tree', () => {
  let installation: TestInstallation;
  let service: Service;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(async () => {
    await service?.stop();
    await installation?.close();
  });

  it('is folded at the first start, and gives receipts', async () => {
    const { sql, store } = installation;
    const transfer_id = newId('txr');
    // That version wrote no `retry_of`.
    const { retry_of: _, ...data } = transferCreated({ transfer_id });
    await appendEvents(store, streamName('transfer', transfer_id), [
      { type: 'transfer.created', data },
      TRANSFER_EVENTS.cancelled,
    ]);
    await sql`drop table read.proof_tiles, read.proof_checkpoints, read.proof_keys`;
    await sql`delete from read.checkpoints where name = 'proof'`;

    const opened = await openInstallation(installation.config, installation.logger);
    try {
      service = await startService(opened, ['projector']);
      await expect
        .poll(async () => (await store.read(SIGNING_KEYS)).length, { timeout: 30_000 })
        .toBe(1);
      const { size } = await checkpointNow(opened, CAUSE);
      expect(size).toBe(4);
      const answer = await makeReceipt(opened, 'acc_default', transfer_id);
      if (answer.state !== 'ready') throw new Error(`the receipt is ${answer.state}`);
      const { receipt } = answer;
      const verdict = verifyReceipt(receipt, createPublicKey(receipt.public_key));
      expect(verdict).toMatchObject({ ok: true });
      expect(verdict.ok && verdict.events[0]?.data).toEqual(data);
    } finally {
      await service?.stop();
      await opened.close();
    }
  });
});
