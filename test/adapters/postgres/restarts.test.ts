import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ConnectOptions, connect, type Sql } from '../../../src/adapters/postgres/connect.ts';
import { isPostgresUnavailable } from '../../../src/adapters/postgres/unavailable.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';
import {
  type EndBy,
  type RestartablePostgres,
  startRestartablePostgres,
} from '../../support/postgres/restartable.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';

const ANSWER_MS = 15_000;
const WORKERS = 30;

/** What a load observed: how transactions and plain queries ended. */
interface Tally {
  committed: number;
  rolledBack: number;
  /** Lost after COMMIT was sent: only Postgres knows the outcome. */
  unknown: number;
  answered: number;
  lost: number;
}

describeWithPostgres('a pool under load', () => {
  let server: RestartablePostgres;
  let proxy: TcpProxy;
  let direct: Sql;
  beforeAll(async () => {
    server = await startRestartablePostgres();
    const { hostname, port } = new URL(server.url);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
    direct = connect(server.url, { max: 2, applicationName: 'observer' });
    await direct`create table pairs (id uuid, half integer)`;
  });
  afterAll(async () => {
    await proxy?.close();
    await direct?.end({ timeout: 1 });
    await server?.stop();
  });

  function pool(options: ConnectOptions): Sql {
    const url = new URL(server.url);
    url.hostname = proxy.host;
    url.port = String(proxy.port);
    return connect(url.href, { applicationName: 'load', ...options });
  }

  /** Runs transactions of two rows each, and queries with known answers, until `faults` ends. */
  async function underLoad(sql: Sql, faults: () => Promise<void>): Promise<Tally> {
    const tally: Tally = { committed: 0, rolledBack: 0, unknown: 0, answered: 0, lost: 0 };
    const wrong: string[] = [];
    /** The rows that Postgres must hold for each transaction. */
    const expected = new Map<string, number | null>();
    let running = true;

    async function transaction(): Promise<void> {
      const id = randomUUID();
      const undo = Math.random() < 0.2;
      let done = false;
      const work = sql.begin(async (tx) => {
        const half = (n: number) => tx`insert into pairs values (${id}, ${n})`;
        if (Math.random() < 0.5) await Promise.all([half(1), tx`select 1`, half(2)]);
        else {
          await half(1);
          await sleep(Math.random() * 20);
          await half(2);
          if (Math.random() < 0.05) await sleep(Math.random() * 300);
        }
        if (undo) throw new Error('undone');
        done = true;
      });
      try {
        await inTime(work);
        tally.committed++;
        expected.set(id, 2);
      } catch (error) {
        const unknown = done && isPostgresUnavailable(error);
        if (!isPostgresUnavailable(error) && !(undo && `${error}` === 'Error: undone'))
          wrong.push(`a transaction: ${error}`);
        if (unknown) tally.unknown++;
        else tally.rolledBack++;
        expected.set(id, unknown ? null : 0);
      }
    }

    async function query(): Promise<void> {
      const word = randomUUID();
      try {
        const [row] = await inTime(sql<{ word: string }[]>`select ${word}::text as word`);
        if (row?.word !== word) wrong.push(`${word} got ${JSON.stringify(row)}`);
        tally.answered++;
      } catch (error) {
        if (!isPostgresUnavailable(error)) wrong.push(`a query: ${error}`);
        tally.lost++;
        await sleep(10);
      }
    }

    const workers = Array.from({ length: WORKERS }, async (_, i) => {
      while (running) await (i % 3 === 0 ? query() : transaction());
    });
    await faults();
    running = false;
    await Promise.all(workers);

    const rows = new Map(
      (
        await direct<{ id: string; rows: number; halves: number }[]>`
          select id, count(*)::int as rows, count(distinct half)::int as halves from pairs
           group by id`
      ).map(({ id, ...counts }) => [id, counts]),
    );
    for (const [id, count] of expected) {
      const found = rows.get(id) ?? { rows: 0, halves: 0 };
      const whole = found.rows === found.halves && (found.rows === 0 || found.rows === 2);
      if (!whole || (count !== null && found.rows !== count))
        wrong.push(`${id} has ${JSON.stringify(found)}, expected ${count}`);
    }
    for (const id of rows.keys()) if (!expected.has(id)) wrong.push(`${id} was never answered`);
    await direct`delete from pairs`;
    expect(wrong).toEqual([]);
    return tally;
  }

  async function inTime<T>(work: PromiseLike<T>): Promise<T> {
    const late = sleep(ANSWER_MS, null, { ref: false }).then(() => {
      throw new Error(`no answer within ${ANSWER_MS} ms`);
    });
    return Promise.race([work, late]);
  }

  const terminateOne = () => direct`
    select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'load' order by random() limit 1`;
  const FAULTS: Record<string, () => unknown> = {
    terminateOne,
    terminateAll: () =>
      direct`
        select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'load'`,
    reset: () => proxy.cut(),
    resetMidAnswer: () => proxy.cutAfter(Math.ceil(Math.random() * 5_000), 'down'),
    resetMidQuery: () => proxy.cutAfter(Math.ceil(Math.random() * 5_000), 'up'),
    freeze: async () => {
      proxy.stall(true);
      await sleep(700);
      proxy.stall(false);
    },
    refuse: async () => {
      await proxy.refuse(true);
      proxy.cut();
      await sleep(100);
      await proxy.refuse(false);
    },
  };

  async function expectWholeTransactions(histories: number): Promise<Tally> {
    const sum: Tally = { committed: 0, rolledBack: 0, unknown: 0, answered: 0, lost: 0 };
    const history = fc.array(
      fc.record({ fault: fc.constantFrom(...Object.keys(FAULTS)), pauseMs: fc.nat(150) }),
      { minLength: 15, maxLength: 30 },
    );
    await fc.assert(
      fc.asyncProperty(history, fc.constantFrom(2, 5, 15), async (steps, max) => {
        // Some transactions idle for longer than this, and the freeze outlasts the watchdog.
        const sql = pool({
          max,
          answerWithinMs: 500,
          settings: { idle_in_transaction_session_timeout: 150 },
        });
        const tally = await underLoad(sql, async () => {
          for (const { fault, pauseMs } of steps) {
            await FAULTS[fault]?.();
            await sleep(pauseMs);
          }
          await sleep(500);
        });
        await sql.end({ timeout: 1 });
        for (const key of Object.keys(sum) as (keyof Tally)[]) sum[key] += tally[key];
      }),
      { numRuns: histories, endOnFailure: true },
    );
    console.log('random faults:', JSON.stringify(sum));
    expect(sum.committed + sum.rolledBack + sum.unknown).toBeGreaterThan(histories);
    return sum;
  }

  async function expectRecovery(ways: EndBy[]): Promise<void> {
    const sql = pool({ max: 10 });
    const tally = await underLoad(sql, async () => {
      for (const by of ways) {
        await server.restart(by);
        // Many lost connections must not add up to a long delay.
        await expect.poll(() => sql`select 1 as one`, { timeout: 30_000 }).toEqual([{ one: 1 }]);
        await sleep(300);
      }
    });
    console.log(`${ways.length} restarts:`, JSON.stringify(tally));
    expect(tally.committed).toBeGreaterThan(ways.length);
    expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    await sql.end({ timeout: 1 });
  }

  const WAYS: EndBy[] = ['SIGINT', 'SIGQUIT', 'SIGKILL'];
  const timeout = 180_000;

  it('keeps transactions whole and answers every query', { timeout }, async () => {
    await expectWholeTransactions(1);
  });
  it('does so through many random faults', { timeout, ...LONG }, async () => {
    expect((await expectWholeTransactions(8)).lost).toBeGreaterThan(20);
  });
  it('recovers from restarts of the server', { timeout }, () => expectRecovery(WAYS));
  it('recovers from ten restarts of the server', { timeout, ...LONG }, () =>
    expectRecovery([...WAYS, 'SIGINT', ...WAYS, ...WAYS]),
  );
});
