import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createLocks } from '../../../src/adapters/postgres/locks.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli, settingsFor } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

const ENDPOINT = { name: 'a', protocol: 'ftps', host: 'a.example.com', username: 'u' };

describeWithPostgres('waybill vault rotate --lost', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());

  it('forgets what a lost master key encrypted, and nothing that the key opens', async () => {
    const settings = settingsFor(database.url);
    const before = createCli(settings);
    const file = JSON.stringify({ ...ENDPOINT, password: 'p' });
    expect(await before.run(['endpoints', 'add', '--file', '-'], file)).toMatchObject({ code: 0 });
    expect(await before.run(['vault', 'rotate', '--lost'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/is not lost/),
    });

    const locks = createLocks(database.url);
    await locks.tryAcquire('as a process that runs');
    const other = Buffer.alloc(32, 7).toString('base64');
    const after = createCli({ ...settings, WAYBILL_MASTER_KEY: other });
    expect(await after.run(['endpoints', 'list'])).toMatchObject({ code: 2 });
    expect(await after.run(['vault', 'rotate', '--lost'])).toMatchObject({
      code: 5,
      stderr: expect.stringMatching(/Stop every process/),
    });
    expect(await before.run(['endpoints', 'list'])).toMatchObject({ code: 0 });
    await locks.close();
    expect(await after.run(['vault', 'rotate', '--lost'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/Set the credentials of each endpoint again/),
    });
    expect(await after.run(['endpoints', 'list'])).toMatchObject({ code: 0 });
    expect(await after.run(['endpoints', 'test', 'a'])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/no longer has the credentials of this endpoint/),
    });
    expect(await after.run(['endpoints', 'add', '--file', '-'], file)).toMatchObject({ code: 0 });
    expect(await before.run(['endpoints', 'list'])).toMatchObject({ code: 2 });
  });
});
