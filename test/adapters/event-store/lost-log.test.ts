import { afterEach, expect, it, onTestFinished } from 'vitest';
import { ensureSigningKey } from '../../../src/commands/log.ts';
import { type Config, parseConfig } from '../../../src/config.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { LogChanged } from '../../../src/domain/proof/log-changed.ts';
import { openInstallation } from '../../../src/installation.ts';
import {
  openEmbedded,
  openEventStoreDb,
  type Tampered,
} from '../../processes/verification/tamper/engines.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { CAUSE } from '../../support/service/installation.ts';

describeWithPostgres('a log that has lost its events', () => {
  let tampered: Tampered;
  afterEach(() => tampered?.close());

  async function countEvents(): Promise<number> {
    const store = tampered.openStore();
    onTestFinished(() => store.close());
    const { signal } = new AbortController();
    let count = 0;
    for await (const { events, caughtUp } of store.subscribe({ from: null, signal })) {
      count += events.length;
      if (caughtUp) break;
    }
    return count;
  }

  function openAgain(config: Config = tampered.installation.config) {
    return openInstallation(config, tampered.installation.logger);
  }

  it.each([
    ['embedded', openEmbedded, /and Postgres has no event/, 0n],
    ['embedded, whose head stays', openEmbedded, /and Postgres has no event/, 1n],
    ['EventStoreDB', openEventStoreDb, /and the EventStoreDB has no event/, 0n],
  ])('is not opened as a new one (%s)', async (_, open, problem, head) => {
    tampered = await open();
    const { logId } = tampered.installation;
    await tampered.replaceLog([], head);
    const failed = await openAgain().catch((error) => error);
    expect(failed).toBeInstanceOf(LogChanged);
    expect(failed.message).toMatch(problem);
    expect(failed.message).toContain(`the log ${logId}, `);
    expect(failed.message).toContain('"Back-up and restore" in docs/operators.md');
    expect(await countEvents()).toBe(0);
  });

  it('is not opened as a new one if only the end of the log tells of its events', async () => {
    tampered = await openEmbedded();
    await tampered.installation.sql`delete from work.log_engines`;
    await tampered.replaceLog([], 1n);
    await expect(openAgain()).rejects.toThrow(/database follow a log, and Postgres has no event/);
    expect(await countEvents()).toBe(0);
  });

  it('is not opened as a new one without its first event, by another database', async () => {
    tampered = await openEventStoreDb();
    await ensureSigningKey(tampered.installation, CAUSE);
    const events = await tampered.installation.store.read('log-keys');
    await tampered.replaceLog(events, 0n);
    await tampered.installation.sql`delete from work.log_engines`;
    await expect(openAgain()).rejects.toThrow(/^The log begins with log-keys revision 0 /);
    expect(await countEvents()).toBe(events.length);
  });

  it('is not opened if its first event says nothing', async () => {
    tampered = await openEmbedded();
    const [first] = await tampered.installation.store.read('log');
    await tampered.replaceLog([{ ...first, data: null } as unknown as StoredEvent], 1n);
    await expect(openAgain()).rejects.toThrow(LogChanged);
    const verifying = { opensChangedLog: true };
    const { config, logger, logId } = tampered.installation;
    const opened = await openInstallation(config, logger, verifying);
    onTestFinished(() => opened.close());
    expect(opened.logId).toBe(logId);
  });

  it('is not searched in Postgres if it is in an EventStoreDB', async () => {
    tampered = await openEventStoreDb();
    const { EVENTSTORE_URL: _, ...without } = tampered.installation.environment;
    await expect(openAgain(parseConfig(without))).rejects.toThrow(/Set EVENTSTORE_URL$/);
    const [row] = await tampered.installation.sql`select count(*)::integer from log.events`;
    expect(row).toEqual({ count: 0 });
  });
});
