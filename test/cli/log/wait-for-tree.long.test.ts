import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createLocks, type Locks } from '../../../src/adapters/postgres/locks.ts';
import { EXIT } from '../../../src/cli/program/exit-codes.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli, settingsFor, written } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS, hookTimeout: CLI_TIMEOUT_MS });

describeWithPostgres('a command that waits for the tree', () => {
  let database: TestDatabase;
  let locks: Locks;
  beforeAll(async () => {
    database = await createTestDatabase();
    locks = createLocks(database.url);
  });
  afterAll(async () => {
    await locks?.close();
    await database?.drop();
  });

  it('ends at a signal, and does nothing more', async () => {
    const cli = createCli(settingsFor(database.url));
    expect(await cli.run(['migrate'])).toMatchObject({ code: 0 });
    expect(await cli.run(['log', 'keys'])).toMatchObject({ code: 0 });
    // As a process that is behind.
    await locks.tryAcquire(lockOf('proof'));
    const { sql } = database;
    const events = async () => (await sql`select count(*) from log.events`)[0]?.count;
    const before = await events();
    const child = cli.start(['log', 'checkpoint']);
    const [ended, stdout] = [once(child, 'close'), text(child.stdout as NodeJS.ReadableStream)];
    const said = written(child.stderr as NodeJS.ReadableStream, /Stopped by SIGTERM/);
    await written(child.stderr as NodeJS.ReadableStream, /Waiting until the tree has all events/);
    child.kill('SIGTERM');
    expect(await ended).toEqual([EXIT.terminated, null]);
    await said;
    expect(await stdout).toBe('');
    expect(await events()).toBe(before);
  });
});
