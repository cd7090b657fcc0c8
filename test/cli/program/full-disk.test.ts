import { expect, it, vi } from 'vitest';
import { createTestDatabase, describeWithPostgres } from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli, settingsFor } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

const CREATE = ['keys', 'create', '--name', 'k', '--scopes', 'admin'];

describeWithPostgres('a command on a full disk', () => {
  it.each([
    ['log.events', CREATE, 'Postgres, which holds the event log, has no room on its disk'],
    ['work.vault_keys', ['keys', 'list'], 'The disk of Postgres is full: could not extend file'],
  ])('of %s says what to do', async (table, command, problem) => {
    const database = await createTestDatabase();
    try {
      const cli = createCli(settingsFor(database.url));
      expect(await cli.run(['migrate'])).toMatchObject({ code: 0 });
      // As Postgres answers when its disk is full.
      await database.sql.unsafe(`
        create function full_disk() returns trigger language plpgsql as
          $$ begin raise 'could not extend file' using errcode = '53100'; end $$;
        create trigger full_disk before insert on ${table} execute function full_disk()`);
      expect(await cli.run(command)).toMatchObject({
        code: 5,
        stderr: `waybill: ${problem}. Make room, then run the command again.\n`,
      });
    } finally {
      await database.drop();
    }
  });
});
