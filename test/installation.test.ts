import { expect, it } from 'vitest';
import { LOCKS_LOST_AFTER_MS } from '../src/adapters/postgres/locks.ts';
import { describeWithPostgres } from './support/postgres/test-database.ts';
import { openTestInstallation } from './support/service/installation.ts';

describeWithPostgres('an installation', () => {
  it('keeps rows of read models locked no longer than a lost lock', async () => {
    const installation = await openTestInstallation();
    const [row] = await installation.derived<{ ms: number }[]>`
      select setting::integer as ms from pg_settings
       where name = 'idle_in_transaction_session_timeout'`;
    await installation.close();
    expect(row?.ms).toBe(LOCKS_LOST_AFTER_MS);
  });

  it('opens no more connections than it may', async () => {
    const installation = await openTestInstallation({ WAYBILL_DATABASE_CONNECTIONS: '13' });
    const { sql, derived, patient } = installation;
    const sessions = async () => {
      const [row] = await sql<{ count: number }[]>`
        select count(*)::integer as count from pg_stat_activity
         where datname = current_database() and application_name = 'waybill'`;
      return row?.count;
    };
    const before = await sessions();
    const busy = [sql, derived, patient].flatMap((pool) =>
      Array.from({ length: 20 }, async () => void (await pool`select pg_sleep(0.01)`)),
    );
    await Promise.all(busy);
    const after = await sessions();
    await installation.close();
    expect(before).toBeLessThan(13);
    // The one that listens has the same name.
    expect(after).toBe(4 + 4 + 5 + 1);
  });
});
