import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect, type Sql } from '../../../src/adapters/postgres/connect.ts';
import { listen } from '../../../src/adapters/postgres/listen.ts';
import { createProxiedDatabase, type ProxiedDatabase } from '../../support/postgres/proxied.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { until } from '../../support/service/transfers.ts';

describeWithPostgres('listen', () => {
  let database: ProxiedDatabase;
  let sql: Sql;
  beforeAll(async () => {
    database = await createProxiedDatabase();
    sql = connect(database.url);
  });
  afterAll(async () => {
    await sql?.end({ timeout: 1 });
    await database?.drop();
  });

  it('survives a Postgres that is down at the start, and each loss of the connection', async () => {
    await database.takeAway();
    const heard: string[] = [];
    let begun = 0;
    const unlisten = listen(
      sql,
      'news',
      (payload) => heard.push(payload),
      () => begun++,
    );
    await expect(sql`select 1`).rejects.toThrow();
    expect(begun).toBe(0);

    await database.giveBack();
    await until('it listens', () => begun === 1);
    await database.sql`select pg_notify('news', 'first')`;
    await until('it listens', () => heard.includes('first'));

    database.proxy.cut();
    await until('it listens again', () => begun === 2);
    await database.sql`select pg_notify('news', 'second')`;
    await until('it listens again', () => heard.includes('second'));

    unlisten();
    await database.sql`select pg_notify('news', 'third')`;
    await sql`select pg_sleep(0.1)`;
    expect(heard).toEqual(['first', 'second']);
  });

  it('uses the connection of the pool that listens for others', async () => {
    const other = connect(database.url, { applicationName: 'other', listener: sql });
    const heard: string[] = [];
    await new Promise<void>((begun) => listen(other, 'news', (news) => heard.push(news), begun));
    await database.sql`select pg_notify('news', 'first')`;
    await until('it hears', () => heard.includes('first'));
    const connections = await database.sql`
      select from pg_stat_activity where application_name = 'other'`;
    await other.end();
    expect(connections.length).toBe(0);
  });
});
