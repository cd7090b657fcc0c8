import { afterAll, beforeAll, expect, it } from 'vitest';
import { tableDifferences } from '../../src/projections/table-differences.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';

describeWithPostgres('the rows that differ between two schemas', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
    const { sql } = database;
    for (const schema of ['one', 'other'])
      await sql.unsafe(`
        create schema ${schema};
        create table ${schema}.orders (id text primary key, position bigint not null, sum integer);
        create table ${schema}.items (
          id text, place integer, position bigint not null, primary key (id, place));
        insert into ${schema}.orders values ('a', 1, 10), ('b', 2, 20), ('c', 9, 30);
        insert into ${schema}.items values ('a', 0, 1), ('a', 1, 1);`);
    await sql`update other.orders set sum = sum + 1 where id in ('b', 'c')`;
    await sql`delete from other.items where place = 1`;
  });
  afterAll(() => database?.drop());

  const found = (limit: number, position = 5n) =>
    database.sql.begin((tx) =>
      tableDifferences({ orders: ['id'], items: ['id', 'place'] })(tx, {
        ...{ live: 'one', shadow: 'other' },
        ...{ position, limit },
      }),
    );

  it('has the key of each row, as both schemas have it', async () => {
    expect(await found(20)).toEqual([
      {
        key: 'b',
        live: { id: 'b', position: 2, sum: 20 },
        log: { id: 'b', position: 2, sum: 21 },
      },
      { key: 'a 1', live: { id: 'a', place: 1, position: 1 }, log: null },
    ]);
  });

  it('leaves out rows that changed after the position', async () => {
    expect((await found(20, 9n)).map(({ key }) => key)).toEqual(['b', 'c', 'a 1']);
    expect((await found(20, 1n)).map(({ key }) => key)).toEqual(['a 1']);
  });

  it('ends at the limit, over all tables', async () => {
    expect((await found(1)).map(({ key }) => key)).toEqual(['b']);
  });
});
