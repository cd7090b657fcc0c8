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
});
