import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { jsonArray, lines } from '../../../src/adapters/postgres/json-array.ts';
import { decodeBytea, decodeText, splitText } from '../../../src/adapters/postgres/long-texts.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const SEPARATOR = '\x1e';
/** A part of a text has at most this length. */
const PART = 60_000;

/** Lists of texts, of which the last four are longer than a part. */
const LISTS: [name: string, texts: string[]][] = [
  ['one empty text', ['']],
  ['short texts', ['a', '', 'é', '𝄞', '"q" \\ \t']],
  ['a long text', ['x'.repeat(200_000)]],
  ['a long text between short ones', ['a', 'é'.repeat(70_000), '', 'b']],
  ['many texts', Array.from({ length: 2_000 }, (_, i) => `${i} ${'é𝄞"\\'.repeat(i % 50)}`)],
  ['texts that end with a part', ['x'.repeat(PART - 1), 'y'.repeat(PART), 'z'.repeat(PART + 1)]],
];

describe('a text that Postgres sent', () => {
  it.each(LISTS)('is split: %s', (_, texts) => {
    expect(splitText(Buffer.from(texts.join(SEPARATOR)), SEPARATOR)).toEqual(texts);
  });

  it('comes in parts', () => {
    const texts = Array.from({ length: 3_000 }, (_, i) => `text ${i}`.repeat(i % 20));
    const parts = decodeText(Buffer.from(texts.join(SEPARATOR)), SEPARATOR);
    expect(parts.length).toBeGreaterThan(2);
    expect(parts.every(({ length }) => length <= PART)).toBe(true);
    expect(parts.join(SEPARATOR)).toBe(texts.join(SEPARATOR));
  });

  it.each([0, 1, 32, 30_000, 160_001])('has %d bytes of a bytea', (length) => {
    const bytes = randomBytes(length);
    expect(decodeBytea(Buffer.from(`\\x${bytes.toString('hex')}`)).equals(bytes)).toBe(true);
  });
});

describeWithPostgres('a text that is sent to Postgres', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  it.each([...LISTS, ['no texts', []]])('has a line for each text: %s', async (_, texts) => {
    const { sql } = database;
    const [row] = await sql`select ${lines(sql, texts)} as text`;
    expect(row).toEqual({ text: texts.join('\n') });
  });

  it.each([...LISTS, ['no texts', []]])('has the items of an array: %s', async (_, texts) => {
    const [row] = await database.sql`select ${texts}::text[] as texts`;
    expect(row).toEqual({ texts });
  });

  it('is sent again after a change of its table', async () => {
    const { sql } = database;
    const texts = Array.from({ length: 5_000 }, (_, i) => `text ${i}, "quoted"`);
    await sql`create table changing as select ''::text as line, ''::text as item`;
    const insert = () => sql`
      insert into changing
      select * from unnest(string_to_array(${lines(sql, texts)}, E'\n'), ${texts}::text[])
      returning *`;
    const rows = texts.map((text) => ({ line: text, item: text }));
    expect(await insert()).toEqual(rows);
    await sql`alter table changing add column more text`;
    expect(await insert()).toEqual(rows.map((row) => ({ ...row, more: null })));
  });

  it('becomes an array of JSON', async () => {
    const { sql } = database;
    const documents = LISTS.flatMap(([, texts]) => texts.map((text) => JSON.stringify({ text })));
    const rows = await sql<{ text: string }[]>`
      select document::json ->> 'text' as text
        from unnest(${jsonArray(sql, documents)}) with ordinality as d(document, nr) order by nr`;
    expect(rows.map(({ text }) => text)).toEqual(LISTS.flatMap(([, texts]) => texts));
  });
});
