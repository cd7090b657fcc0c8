import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { LOCKS_LOST_AFTER_MS } from '../src/adapters/postgres/locks.ts';
import { parseConfig } from '../src/config.ts';
import { openInstallation } from '../src/installation.ts';
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

it('names settings of the event store that cannot be used before it starts anything', async () => {
  const root = mkdtempSync(join(tmpdir(), 'waybill-installation-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const dataDir = join(root, 'data');
  const open = (settings: Record<string, string>) =>
    openInstallation(
      parseConfig({ WAYBILL_DATA_DIR: dataDir, ...settings }),
      pino({ level: 'silent' }),
    );
  const url = 'esdb://localhost:1';
  const caFile = join(root, 'missing.pem');
  await expect(open({ EVENTSTORE_URL: url, WAYBILL_EVENTSTORE_CA_FILE: caFile })).rejects.toThrow(
    /^WAYBILL_EVENTSTORE_CA_FILE names a file that cannot be used: ENOENT/,
  );
  await expect(open({ EVENTSTORE_URL: `${url}?tlss=true` })).rejects.toThrow(/unknown option/);
  expect(existsSync(dataDir)).toBe(false);
});
