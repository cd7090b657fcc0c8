import { expect, it, onTestFinished } from 'vitest';
import { movesElsewhere } from '../../../src/processes/dispatch/fewer-places.ts';
import { rowsRead } from '../../support/postgres/rows-read.ts';
import { createTestDatabase, describeWithPostgres } from '../../support/postgres/test-database.ts';

describeWithPostgres('whether other processes move files of an endpoint', () => {
  it('is found without a look at the transfers that wait', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const { sql } = database;
    await sql`
      insert into work.transfer_jobs (transfer_id, account_id, status, revision, priority, source,
        destination, source_endpoint_id, destination_endpoint_id, due_at, rank, claim_id,
        claimed_by, lease_until)
      select 'txr_' || n, 'acc', 'queued', 1, 'normal', 'sftp://a/a', 'sftp://b/b', 'end_a',
             'end_b', now(), now(), case when n = 1 then 'clm_1' end,
             case when n = 1 then 'prc_other' end, case when n = 1 then now() end
        from generate_series(1, 5000) n`;
    await sql`analyze work.transfer_jobs`;
    for (const [endpoint, own, moves] of [
      ['end_a', 'prc_own', true],
      ['end_c', 'prc_own', false],
      ['end_b', 'prc_other', false],
    ] as const)
      await sql.begin(async (tx) => {
        // As the pools of a service have it.
        await tx`set local enable_seqscan = off`;
        const before = await rowsRead(tx, 'work.transfer_jobs');
        expect(await movesElsewhere(tx as never, endpoint, own, { withBytes: false })).toBe(moves);
        expect((await rowsRead(tx, 'work.transfer_jobs')) - before).toBeLessThan(10);
      });
  });
});
