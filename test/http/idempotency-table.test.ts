import { afterAll, beforeAll, expect, it } from 'vitest';
import { createIdempotencyKeys, type IdempotencyKeys } from '../../src/http/idempotency/table.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../support/service/installation.ts';

describeWithPostgres('rows of Idempotency-Keys', () => {
  let installation: TestInstallation;
  let keys: IdempotencyKeys;
  beforeAll(async () => {
    installation = await openTestInstallation();
    keys = createIdempotencyKeys(installation.sql);
  });
  afterAll(() => installation?.close());

  const idOf = (key: string) => ({ account_id: 'acc_default', route: 'POST /v1/x', key });
  const names = (name: string, count = 100) => Array.from({ length: count }, (_, i) => name + i);
  const reserveAll = (all: string[], of = 'first') =>
    Promise.all(all.map((key) => keys.reserve(idOf(key), `print of ${key}`, { of, key })));

  it('are reserved by many requests at once, each with its own values', async () => {
    const all = names('many');
    const rows = await reserveAll(all);
    expect(rows).toEqual(
      all.map((key) => ({
        fingerprint: `print of ${key}`,
        reserved: { of: 'first', key },
        status: null,
        answer: null,
        repeated: false,
      })),
    );
  });

  it('are new, repeated, answered or expired in one batch', async () => {
    const all = names('mixed', 40);
    const [known, answered, expired] = [0, 10, 20].map((from) => all.slice(from, from + 10));
    await reserveAll([...known!, ...answered!, ...expired!]);
    const answer = (key: string) => ({ body: `{"key":"${key}"}`, location: `/v1/x/${key}` });
    await Promise.all(answered!.map((key) => keys.storeAnswer(idOf(key), 201, answer(key))));
    await installation.sql`
      update work.idempotency_keys set created_at = now() - interval '25 hours'
       where key = any(${expired!}::text[])`;

    const rows = await reserveAll(all, 'second');
    for (const [i, key] of all.entries()) {
      const isKnown = i < 20;
      expect(rows[i], key).toMatchObject({
        reserved: { of: isKnown ? 'first' : 'second', key },
        repeated: isKnown,
        status: answered!.includes(key) ? 201 : null,
        answer: answered!.includes(key) ? answer(key) : null,
      });
    }
  });

  it('keep their first answer', async () => {
    const all = names('kept', 10);
    await reserveAll(all);
    const store = (body: string) =>
      Promise.all(all.map((key) => keys.storeAnswer(idOf(key), 200, { body: body + key })));
    expect(await store('first ')).toEqual(all.map(() => null));
    expect(await store('second ')).toEqual(
      all.map((key) => ({ status: 200, answer: { body: `first ${key}` } })),
    );
    await keys.remove(idOf(all[0]!));
    expect((await reserveAll([all[0]!]))[0]).toMatchObject({ repeated: true, status: 200 });
  });

  it('have the values of the first of two requests that hold one key, after a lost lock', async () => {
    const rows = await Promise.all([
      keys.reserve(idOf('twice'), 'print', { of: 'first' }),
      keys.reserve(idOf('twice'), 'print', { of: 'second' }),
      keys.reserve(idOf('once'), 'print', { of: 'once' }),
    ]);
    expect(rows.map(({ reserved }) => reserved)).toEqual([
      { of: 'first' },
      { of: 'first' },
      { of: 'once' },
    ]);
  });

  it('are found if another request commits them meanwhile', async () => {
    const { sql } = installation;
    const inserted = Promise.withResolvers<void>();
    const commit = Promise.withResolvers<void>();
    const other = sql.begin(async (tx) => {
      await tx`
        insert into work.idempotency_keys (account_id, route, key, fingerprint, reserved)
        values ('acc_default', 'POST /v1/x', 'raced', 'print of raced', '{"of":"other"}')`;
      inserted.resolve();
      await commit.promise;
    });
    await inserted.promise;
    const row = keys.reserve(idOf('raced'), 'print of raced', { of: 'mine' });
    await expect
      .poll(
        async () =>
          (
            await sql`
              select from pg_stat_activity
               where datname = current_database() and wait_event_type = 'Lock'`
          ).length,
      )
      .toBe(1);
    commit.resolve();
    await other;
    expect(await row).toMatchObject({ reserved: { of: 'other' }, repeated: true });
  });
});
