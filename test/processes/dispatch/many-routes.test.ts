import { afterAll, beforeAll, expect, it } from 'vitest';
import { rowsRead } from '../../support/postgres/rows-read.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const ROUTES = 2_000;

describeWithPostgres('kept places with many routes', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
    const { sql } = database;
    await sql`
      insert into work.transfer_jobs (transfer_id, account_id, status, revision, priority, source,
        destination, source_endpoint_id, destination_endpoint_id, due_at, rank)
      select 'txr_' || n, 'acc_' || n, 'queued', 1, 'normal', 'sftp://a/a', 'sftp://b/b',
             'end_source_' || n, 'end_destination_' || n, now() - interval '1 hour', now()
        from generate_series(1, ${ROUTES}::integer) n`;
    await sql`analyze work.transfer_jobs`;
  });
  afterAll(() => database?.drop());

  it('look up the first transfer only of routes that use a scarce endpoint', async () => {
    // The last place of ten sources is free. Ten other destinations have none.
    const room: Record<string, number> = {};
    for (let n = 1; n <= ROUTES; n++) {
      room[`end_source_${n}`] = n <= 10 ? 1 : 8;
      room[`end_destination_${n}`] = n > 10 && n <= 20 ? 0 : 8;
    }
    const { starved, read } = await database.sql.begin(async (tx) => {
      const [{ routes }] = await tx<[{ routes: unknown }]>`
        select work.claimable_routes()::text as routes`;
      const before = await rowsRead(tx, 'work.transfer_jobs');
      const [row] = await tx<[{ starved: string[] }]>`
        select array_agg(transfer_id order by transfer_id) as starved
          from work.starved_transfers(
            ${routes as string}::text::jsonb, ${JSON.stringify(room)}::text::jsonb, '{}', 1)`;
      return { starved: row.starved, read: (await rowsRead(tx, 'work.transfer_jobs')) - before };
    });
    expect(starved).toEqual(Array.from({ length: 10 }, (_, i) => `txr_${i + 1}`).toSorted());
    expect(read).toBeLessThan(ROUTES / 10);
  });
});
