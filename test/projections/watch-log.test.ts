import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { createKey } from '../../src/commands/keys.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { watchLog } from '../../src/projections/watch-log.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';

const LOOK_MS = 50;

describeWithPostgres('a process without consumers', () => {
  let here: TestInstallation;
  beforeAll(async () => {
    here = await openTestInstallation();
    const request = keyRequest.parse({ name: 'a client', scopes: ['transfers:read'] });
    await createKey(here.commands, request, CAUSE, { allowNever: false });
  });
  afterAll(() => here?.close());

  it('ends when its tables follow another log', async () => {
    const stopping = new AbortController();
    onTestFinished(() => stopping.abort());
    const watching = watchLog(here, stopping.signal, LOOK_MS).catch((error: Error) => error);
    expect(await Promise.race([watching, sleep(500, 'it runs')])).toBe('it runs');
    // As if an older copy of the log was restored: it lacks the last event that the tables show.
    await here.sql`
      update read.checkpoints set event_id = reverse(event_id) where name = 'catalog'`;
    expect(await watching).toMatchObject({ name: 'WrongLog' });
  });
});
