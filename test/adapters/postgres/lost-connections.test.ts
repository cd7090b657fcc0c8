import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import {
  type ConnectOptions,
  connect,
  type Sql,
  type Transaction,
} from '../../../src/adapters/postgres/connect.ts';
import { isPostgresUnavailable } from '../../../src/adapters/postgres/unavailable.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

/** Every query of these tests has an answer within it, also on a busy machine. */
const ANSWER_MS = 30_000;

describeWithPostgres('a connection that is lost', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  beforeAll(async () => {
    database = await createTestDatabase();
    await database.sql`create table public.written (id integer, part text)`;
    const { hostname, port } = new URL(database.url);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  });
  afterAll(async () => {
    await proxy?.close();
    await database?.drop();
  });
  beforeEach(() => database.sql`delete from public.written`);

  const open: Sql[] = [];
  afterEach(async () => {
    proxy.stall(false);
    await Promise.all(open.splice(0).map((sql) => sql.end({ timeout: 1 })));
  });

  /** Opens a pool through the proxy. It has one connection, so the next query reuses it. */
  function pool(options: ConnectOptions = {}): Sql {
    const url = new URL(database.url);
    url.hostname = proxy.host;
    url.port = String(proxy.port);
    const sql = connect(url.href, { max: 1, ...options });
    open.push(sql);
    return sql;
  }

  const insert = (tx: Transaction, id: number, part: string) =>
    tx`insert into public.written values (${id}, ${part})`;
  const written = async () =>
    (await database.sql`select id, part from public.written order by id, part`).map(
      ({ id, part }) => `${id} ${part}`,
    );
  const terminate = (pid: number) => database.sql`select pg_terminate_backend(${pid}::int)`;
  const pidOf = async (tx: Transaction) =>
    (await tx`select pg_backend_pid() as pid`)[0]?.pid as number;

  /** Sends a query at once. Its outcome may be read later. */
  function sent(query: PromiseLike<unknown>): PromiseLike<unknown> {
    const sending = query.then();
    sending.then(null, () => {});
    return sending;
  }

  /** Resolves when that session executes `pg_sleep`. */
  async function isAsleep(pid: number): Promise<void> {
    for (;;) {
      const found = await database.sql`
        select from pg_stat_activity where pid = ${pid} and wait_event = 'PgSleep'`;
      if (found.length > 0) return;
      await sleep(5);
    }
  }

  /** Returns how each query ended, or that one has no answer. */
  async function outcomes(work: PromiseLike<unknown>[]): Promise<string[]> {
    const late = sleep(ANSWER_MS, 'no answer', { ref: false });
    return Promise.all(
      work.map((each) =>
        Promise.race([
          late,
          Promise.resolve(each).then(
            () => 'done',
            (error) => (isPostgresUnavailable(error) ? 'lost' : `${error}`),
          ),
        ]),
      ),
    );
  }
  /** Ten queries in a row: leftovers of the lost connection would answer or block one of them. */
  async function expectRecovered(sql: Sql): Promise<void> {
    for (let i = 0; i < 10; i++) {
      const [row] = (await Promise.race([
        sql`select ${i}::int as i`,
        sleep(ANSWER_MS, [], { ref: false }),
      ])) as { i: number }[];
      expect(row).toEqual({ i });
    }
    expect(await outcomes([sql.begin((tx) => insert(tx, 99, 'after'))])).toEqual(['done']);
    expect(await written()).toContain('99 after');
  }

  const LOSSES: [string, (pid: number) => unknown][] = [
    ['terminated by the server', terminate],
    ['reset', () => proxy.cut()],
  ];
  for (const [how, lose] of LOSSES) {
    it(`rejects its transaction and every queued query: ${how} during a statement`, async () => {
      const sql = pool();
      let queries: PromiseLike<unknown>[] = [];
      const transaction = sql.begin(async (tx) => {
        const pid = await pidOf(tx);
        await insert(tx, 1, 'before');
        queries = [
          sent(tx`select pg_sleep(20)`),
          ...Array.from({ length: 200 }, (_, i) => sent(insert(tx, 1, `queued ${i}`))),
        ];
        setTimeout(async () => lose(pid), 50);
        await Promise.all(queries);
      });
      expect(await outcomes([transaction])).toEqual(['lost']);
      expect(new Set(await outcomes(queries))).toEqual(new Set(['lost']));
      await expectRecovered(sql);
      expect(await written()).toEqual(['99 after']);
    });

    it(`rejects its transaction and later statements: ${how} between statements`, async () => {
      const sql = pool();
      let late: PromiseLike<unknown>[] = [];
      const transaction = sql.begin(async (tx) => {
        await insert(tx, 1, 'before');
        await lose(await pidOf(tx));
        // At once, after the first sign of the loss, and after its end.
        for (const ms of [0, 1, 5, 100]) {
          await sleep(ms);
          late.push(sent(insert(tx, 1, `late by ${ms}`)));
        }
        late = late.map((each) => each);
        await Promise.allSettled(late);
      });
      const others = Array.from({ length: 20 }, (_, i) =>
        sql.begin((tx) => insert(tx, 2, `other ${i}`)),
      );
      expect(await outcomes([transaction])).toEqual(['lost']);
      await sleep(300);
      expect(new Set(await outcomes(late))).toEqual(new Set(['lost']));
      const done = (await outcomes(others)).filter((each) => each === 'done');
      await expectRecovered(sql);
      expect(await written()).toHaveLength(done.length + 1);
      expect((await written()).filter((each) => each.startsWith('1'))).toEqual([]);
    });

    it(`rejects a transaction that ignores the loss: ${how}`, async () => {
      const sql = pool();
      const transaction = sql.begin(async (tx) => {
        await lose(await pidOf(tx));
        await new Promise(() => {});
      });
      expect(await outcomes([transaction])).toEqual(['lost']);
      await expectRecovered(sql);
    });
  }

  it('rejects a query sent after the reset and before the socket closes', async () => {
    const sql = pool();
    await sql`select 1`;
    const slow = sent(sql`select pg_sleep(20)`);
    await sleep(50);
    const rest: PromiseLike<unknown>[] = [];
    const failed = slow.then(null, (error: unknown) => {
      // In the same turn of the event loop: the driver has seen the error but not the close.
      for (let i = 0; i < 5; i++) rest.push(sent(sql`select ${i}::int`));
      throw error;
    });
    proxy.cut();
    expect(await outcomes([failed])).toEqual(['lost']);
    const ended = await outcomes(rest);
    expect(ended).toHaveLength(5);
    expect(ended).not.toContain('no answer');
    await expectRecovered(sql);
  });

  it('never runs statements of an expired transaction in another one', async () => {
    const sql = pool();
    const nextHasBegun = Promise.withResolvers<void>();
    const lateAreOver = Promise.withResolvers<void>();
    let late: string[] = [];
    const dead = sql.begin(async (tx) => {
      await insert(tx, 1, 'before');
      // Of this transaction alone: the next one must live on any machine.
      await tx`set local idle_in_transaction_session_timeout = 100`;
      await nextHasBegun.promise;
      late = await outcomes([insert(tx, 1, 'after'), tx`commit`]);
      lateAreOver.resolve();
    });
    const next = sql.begin(async (tx) => {
      await insert(tx, 2, 'before');
      nextHasBegun.resolve();
      await lateAreOver.promise;
      await insert(tx, 2, 'after');
      throw new Error('undone');
    });
    expect(await outcomes([dead, next])).toEqual(['lost', 'Error: undone']);
    expect(late).toEqual(['lost', 'lost']);
    expect(await written()).toEqual([]);
    await expectRecovered(sql);
  });

  it('rejects statements sent at the moment when the server ends an idle transaction', async () => {
    const sql = pool({ settings: { idle_in_transaction_session_timeout: 100 } });
    for (let round = 0; round < 20; round++) {
      const transaction = sql.begin(async (tx) => {
        await insert(tx, 1, 'before');
        await sleep(90 + round);
        await insert(tx, 1, 'after');
      });
      expect(['lost', 'done']).toContain((await outcomes([transaction]))[0]);
    }
    const parts = await written();
    expect(parts.filter((each) => each === '1 before')).toHaveLength(
      parts.filter((each) => each === '1 after').length,
    );
    await expectRecovered(sql);
  });

  it('accepts no statement after the end of a transaction', async () => {
    const sql = pool();
    let late: Transaction | undefined;
    await sql.begin(async (tx) => {
      late = tx;
      await insert(tx, 1, 'in time');
    });
    const next = sql.begin(async (tx) => {
      await insert(tx, 2, 'own');
      const ended = await outcomes([insert(late as Transaction, 1, 'late')]);
      expect(ended[0]).toContain('TRANSACTION_OVER');
    });
    expect(await outcomes([next])).toEqual(['done']);
    expect(await written()).toEqual(['1 in time', '2 own']);
  });

  it('keeps a transaction separate whose BEGIN fills the queue of its connection', async () => {
    const sql = pool();
    await sql`select 1`;
    for (const before of [98, 99, 100, 101, 102]) {
      const queries = Array.from({ length: before }, () => sent(sql`select 1`));
      const transaction = sql.begin(async (tx) => {
        await insert(tx, before, 'inside');
        await sleep(20);
        throw new Error('undone');
      });
      const outside = sent(sql`insert into public.written values (${before}, 'outside')`);
      expect(await outcomes([transaction, outside])).toEqual(['Error: undone', 'done']);
      expect(new Set(await outcomes(queries))).toEqual(new Set(['done']));
    }
    expect(await written()).toEqual([98, 99, 100, 101, 102].map((id) => `${id} outside`));
  });

  it('answers every query with its own result when one of them cannot be built', async () => {
    const sql = pool();
    // The server knows both, so they are sent one behind the other without a prepare step.
    await sql`select ${0}::int as i`;
    await sql`select ${new Date()}::timestamptz`;
    const good = [1, 2, 3].map((i) => sql`select ${i}::int as i`.then(([row]) => row?.i));
    const bad = sent(sql`select ${new Date(Number.NaN)}::timestamptz`);
    const more = [4, 5, 6].map((i) => sql`select ${i}::int as i`.then(([row]) => row?.i));
    expect((await outcomes([bad]))[0]).toContain('RangeError');
    expect(await outcomes([...good, ...more])).toEqual(Array(6).fill('done'));
    expect(await Promise.all([...good, ...more])).toEqual([1, 2, 3, 4, 5, 6]);
    await expectRecovered(sql);
  });

  it('gives up a silent server, and recovers when it answers again', async () => {
    const sql = pool({ max: 3, answerWithinMs: 2_000 });
    await Promise.all([1, 2, 3].map(() => sql`select 1`));
    let queries: PromiseLike<unknown>[] = [];
    let transaction: PromiseLike<unknown> | undefined;
    const begun = new Promise<void>((resolve) => {
      transaction = sql.begin(async (tx) => {
        await insert(tx, 1, 'before');
        proxy.stall(true);
        queries = Array.from({ length: 20 }, (_, i) => sent(insert(tx, 1, `queued ${i}`)));
        resolve();
        await Promise.all(queries);
      });
    });
    await begun;
    const plain = [1, 2, 3, 4].map(() => sent(sql`select 1`));
    expect(await outcomes([transaction as PromiseLike<unknown>])).toEqual(['lost']);
    expect(new Set(await outcomes(queries))).toEqual(new Set(['lost']));
    // The others wait for a new connection.
    expect(await outcomes(plain.slice(0, 2))).toEqual(['lost', 'lost']);
    proxy.stall(false);
    await expectRecovered(sql);
    expect((await written()).filter((each) => each.startsWith('1'))).toEqual([]);
  });

  it('does not end a slow statement that has time left or no limit', async () => {
    const slow = pool({ answerWithinMs: null });
    const quick = pool({ answerWithinMs: 2_000 });
    const pid = () => quick`select pg_backend_pid()`;
    const before = await pid();
    expect(await outcomes([slow`select pg_sleep(2.5)`, quick`select pg_sleep(0.5)`])).toEqual([
      'done',
      'done',
    ]);
    // The connection that was unused for longer is still the same.
    expect(await pid()).toEqual(before);
  });

  it("rejects a query whose connection closes before the server's greeting", async () => {
    let dialled = 0;
    const server = createServer((socket) => {
      dialled++;
      socket.end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const sql = connect(`postgres://waybill:x@127.0.0.1:${port}/waybill`, { max: 1 });
    expect(await outcomes([sql`select 1`, sql.begin((tx) => tx`select 1`)])).toEqual([
      'lost',
      'lost',
    ]);
    expect(dialled).toBeLessThan(5);
    await sql.end({ timeout: 1 });
    server.close();
  });

  it('tries every host of a list once, then rejects', async () => {
    const url = `postgres://waybill:x@127.0.0.1:1,127.0.0.1:1,127.0.0.1:1/waybill`;
    const sql = connect(url, { max: 1 });
    expect(await outcomes([sql`select 1`, sql`select 2`])).toEqual(['lost', 'lost']);
    await sql.end({ timeout: 1 });
  });

  it('lets its pool end while the connection is lost or is being replaced', async () => {
    const sql = pool();
    const [row] = await sql`select pg_backend_pid() as pid`;
    const ended = sql`select pg_sleep(20)`.then().then(null, () => sql.end());
    await isAsleep(row?.pid);
    await terminate(row?.pid);
    expect(await outcomes([ended])).toEqual(['done']);

    const again = pool();
    await again`select 1`;
    const before = proxy.connections;
    proxy.cut();
    while (proxy.connections > 0) await sleep(5);
    const query = sent(again`select 1`);
    await again.end({ timeout: 0 });
    // Either the new connection was ready in time, or the end of the pool rejects the query.
    expect(['lost', 'done']).toContain((await outcomes([query]))[0]);
    for (let look = 0; look < 100 && proxy.connections > 0; look++) await sleep(20);
    await sleep(200);
    expect({ before, after: proxy.connections }).toEqual({ before, after: 0 });
  });

  it('is replaced after an error because it takes no writes', async () => {
    const [{ name }] = await database.sql<[{ name: string }]>`select current_database() as name`;
    const ways: [string, (sql: Sql, id: number) => Promise<unknown>][] = [
      ['a statement', (sql, id) => sql`insert into public.written values (${id}, '')`],
      ['a transaction', (sql, id) => sql.begin((tx) => insert(tx, id, ''))],
      [
        'one of several at once',
        (sql, id) => Promise.all([sql`select 1`, insert(sql as never, id, ''), sql`select 2`]),
      ],
    ];
    for (const [way, write] of ways) {
      await database.sql`alter database ${database.sql(name)} set default_transaction_read_only = on`;
      const sql = pool();
      await expect(write(sql, 1), way).rejects.toMatchObject({ code: '25006' });
      await expect(write(sql, 1), way).rejects.toMatchObject({ code: '25006' });
      expect(await sql`select 1 as one`).toMatchObject([{ one: 1 }]);
      await database.sql`alter database ${database.sql(name)} reset default_transaction_read_only`;
      // The session before the reset ends by the first failure, as that of a busy pool does.
      await write(sql, 2).catch((error: unknown) => expect(error).toMatchObject({ code: '25006' }));
      await write(sql, 3);
      expect(await written(), way).toContain('3 ');
      await database.sql`delete from public.written`;
    }
  });

  it('resumes its listeners', async () => {
    const sql = pool();
    const heard: string[] = [];
    let listening = 0;
    await sql.listen(
      'news',
      (payload) => heard.push(payload),
      () => listening++,
    );
    for (let round = 1; round <= 5; round++) {
      proxy.cut();
      while (listening <= round) await sleep(5);
      await database.sql`select pg_notify('news', ${`${round}`})`;
      while (heard.length < round) await sleep(5);
    }
    expect(heard).toEqual(['1', '2', '3', '4', '5']);
  });
});
