import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { createCertificates } from '../../support/network/certificates.ts';
import { addTls } from '../../support/postgres/over-tls.ts';
import { createTestDatabase, describeWithPostgres } from '../../support/postgres/test-database.ts';

describeWithPostgres('a transaction over TLS', () => {
  it('gets no statement of others if its answer overtakes the end of a write', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const { valid } = await createCertificates();
    const server = await addTls(database.url, valid);
    onTestFinished(() => server.stop());
    const sql = connect(`${server.url}?sslmode=require`, { max: 1 });
    onTestFinished(() => sql.end({ timeout: 1 }));

    await sql`create table public.written (part text)`;
    // More than a socket takes without a `drain`.
    const big = 'x'.repeat(100_000);
    // Prepares the statement, so that it is sent in one piece.
    await sql`insert into public.written values (${big})`;
    let outside: Promise<unknown> | null = null;
    const transaction = sql.begin(async (tx) => {
      outside = sql`insert into public.written values ('outside')`.execute();
      // Node.js ends a write over TLS after it has read what arrived. After a timer, that may be
      // the answer, if the process is busy until then.
      await sleep(1);
      const inserted = tx`insert into public.written values (${big})`.execute();
      for (let turn = 0; turn < 5; turn++) await null;
      const busyUntil = performance.now() + 300;
      while (performance.now() < busyUntil);
      await inserted;
      await sleep(50);
      throw new Error('undone');
    });
    await expect(transaction).rejects.toThrow('undone');
    await outside;
    expect(await sql`select left(part, 7) as part from public.written`).toEqual([
      { part: 'xxxxxxx' },
      { part: 'outside' },
    ]);
  });
});
