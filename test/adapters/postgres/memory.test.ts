import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const CONNECT = resolve(import.meta.dirname, '../../../src/adapters/postgres/connect.ts');
const QUERIES = 400;
const BYTES = 200_000;

/** Prints by how many bytes the memory of a process grows. A thread of the tests keeps more. */
const PROGRAM = `
  import { connect } from '${CONNECT}';
  const [url, queries, bytes] = process.argv.slice(1);
  const sql = connect(url, { max: 1 });
  const query = async () => {
    const rows = await sql\`
      select repeat('x', 100) as text from generate_series(1, \${bytes / 100}::integer)\`;
    if (rows.length * 100 !== Number(bytes)) throw new Error('Not all rows have arrived');
  };
  await query();
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let n = 1; n <= queries; n++) {
    await query();
    if (n % 10 === 0) gc({ type: 'minor' });
  }
  console.log(process.memoryUsage().heapUsed - before);
  await sql.end();`;

describeWithPostgres('the memory of queries that have ended', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  it('is free at the next collection of the young generation', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--expose-gc',
      '--max-semi-space-size=32',
      '--input-type=module',
      '-e',
      PROGRAM,
      database.url,
      String(QUERIES),
      String(BYTES),
    ]);
    // The last query before each collection may survive it. The others must not.
    expect(Number(stdout)).toBeLessThan((QUERIES * BYTES) / 20);
  });
});
