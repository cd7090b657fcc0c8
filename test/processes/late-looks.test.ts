import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Sql } from '../../src/adapters/postgres/connect.ts';
import { newId } from '../../src/domain/ids.ts';
import type { Transfer } from '../../src/domain/transfers/transfer.ts';
import { beginSourceStep, type ClaimedSteps, claimSteps } from '../../src/processes/after/table.ts';
import {
  type Cleanup,
  cleanUpIfEnded,
  endCleanup,
  lookLater,
  lookLaterForLost,
  removeJobs,
  takeCleanup,
  takeLook,
} from '../../src/processes/dispatch/cleanups.ts';
import { saveJobs } from '../../src/processes/dispatch/job-table/jobs.ts';
import { endLook, giveUpLooks, type LateLook } from '../../src/processes/late-looks.ts';
import { rowsRead } from '../support/postgres/rows-read.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { openTestInstallation, type TestInstallation } from '../support/service/installation.ts';

const RECORD = { destination: { bytes: 1, state: { part: '.b.part' } } };
const destination = 'sftp://beta/b';
const accountId = 'acc_default';

describeWithPostgres('looks for what late requests have done', () => {
  let installation: TestInstallation;
  let transferId: string;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  beforeEach(async () => {
    const { sql } = installation;
    transferId = newId('txr');
    for (const table of ['late_looks', 'cleanups', 'after_steps', 'transfer_jobs'])
      await sql`delete from work.${sql(table)}`;
  });
  afterAll(() => installation?.close());

  const rows = () =>
    installation.sql<(LateLook & { looks: number; wait: number })[]>`
      select *, round(extract(epoch from due_at - now()) / 60)::integer as wait
        from work.late_looks`;
  const due = () => installation.sql`update work.late_looks set due_at = now()`;
  const take = (running: string[] = []) => takeLook(installation.sql, running);
  const late = () => lookLater(installation.sql, { transferId, accountId, destination });

  async function addJob(): Promise<void> {
    const job = {
      transfer_id: transferId,
      account_id: accountId,
      status: 'queued',
      revision: 1,
      priority: 'normal',
      source: 'sftp://alpha/a',
      destination,
      source_endpoint_id: null,
      destination_endpoint_id: 'end_beta',
      claim_id: null,
      due_at: new Date().toISOString(),
      delay: 0,
      figures: null,
    } as const;
    await saveJobs(installation.sql, [job]);
    await installation.sql`
      update work.transfer_jobs set resume_record = ${installation.sql.json(RECORD)}`;
  }

  const ended = (aborted: boolean) =>
    removeJobs(installation.sql, [
      { transferId, leftovers: true, completed: false, size: null, after: false, aborted },
    ]);

  it('are taken one at a time, and so are clean-ups, whatever the statistics say', async () => {
    const { sql } = installation;
    const add = async (table: 'cleanups' | 'late_looks', count: number) => {
      const side = table === 'late_looks' ? sql`, side` : sql``;
      const place = table === 'late_looks' ? sql`, 'destination'` : sql``;
      const name = table === 'late_looks' ? sql`uri` : sql`destination`;
      for (let n = 0; n < count; n++)
        await sql`
          insert into work.${sql(table)} (transfer_id, account_id, ${name}, due_at ${side})
          select ${newId('txr')}, ${accountId}, ${destination}, now() ${place}`;
    };
    for (const table of ['cleanups', 'late_looks'] as const) {
      // Statistics of a table that has grown since: a subquery would run for each row.
      await add(table, 1);
      await sql`analyze work.${sql(table)}`;
      await add(table, 8);
      await (table === 'cleanups' ? takeCleanup(sql, []) : take());
      expect(await sql`select from work.${sql(table)} where tries > 0`).toHaveLength(1);
      await sql`delete from work.${sql(table)}`;
    }
  });

  it.each(['cleanups', 'late_looks'])(
    'are found among %s without a look at all of them, however many wait for one server',
    async (table) => {
      const { sql } = installation;
      const [side, uri] =
        table === 'cleanups' ? [sql``, sql`destination`] : [sql`, side`, sql`uri`];
      const place = table === 'cleanups' ? sql`` : sql`, 'destination'`;
      await sql`
        insert into work.${sql(table)} (transfer_id, account_id, ${uri}, due_at ${side})
        select 'txr_' || n, ${accountId}, 'sftp://down/' || n, now() - interval '1 hour' ${place}
          from generate_series(1, 20000) n`;
      await sql`
        insert into work.${sql(table)} (transfer_id, account_id, ${uri}, due_at ${side})
        select ${transferId}, ${accountId}, 'sftp://up/a', now() ${place}`;
      const next = async (tx: Sql, running: string[]) =>
        table === 'cleanups' ? takeCleanup(tx, running) : takeLook(tx, running);
      for (const [running, found] of [
        [['sftp://down'], 'sftp://up'],
        [Array(4).fill('sftp://down'), 'sftp://up'],
        [Array(4).fill('sftp://up'), 'sftp://down'],
      ] as const)
        await sql.begin(async (tx) => {
          const before = await rowsRead(tx, `work.${table}`);
          expect(await next(tx as never, [...running])).toMatchObject({ server: found });
          expect((await rowsRead(tx, `work.${table}`)) - before).toBeLessThan(100);
          await tx`update work.${tx(table)} set due_at = now() where transfer_id = ${transferId}`;
        });
    },
  );

  it('take place six times, ever later', async () => {
    const { sql } = installation;
    await late();
    const waits: number[] = [];
    for (let [row] = await rows(); row; [row] = await rows()) {
      waits.push(row.wait);
      expect(await take()).toBeNull();
      await due();
      const look = await take();
      expect(look).toMatchObject({ side: 'destination', uri: destination, state: null, tries: 1 });
      await endLook(sql, look as LateLook);
    }
    expect(waits).toEqual([1, 4, 16, 64, 256, 1_024]);
  });

  it('are tried again after a failure, and can be given up', async () => {
    await late();
    await due();
    expect(await take(Array(4).fill('sftp://beta'))).toBeNull();
    await take();
    expect(await rows()).toMatchObject([{ looks: 0, tries: 1, wait: 1 }]);
    await due();
    const again = await take();
    expect(await rows()).toMatchObject([{ looks: 0, tries: 2, wait: 2 }]);
    await giveUpLooks(installation.sql, again as LateLook);
    expect(await rows()).toEqual([]);
  });

  it('never wait longer than a day, and nor do clean-ups, however often they were tried', async () => {
    const { sql } = installation;
    await late();
    await sql`
      insert into work.cleanups (transfer_id, account_id, destination)
      values (${newId('txr')}, ${accountId}, ${destination})`;
    for (const table of ['late_looks', 'cleanups'])
      await sql`update work.${sql(table)} set due_at = now(), tries = 1000`;
    await Promise.all([take(), takeCleanup(sql, [])]);
    for (const table of ['late_looks', 'cleanups'])
      expect(
        await sql`select tries, due_at <= now() + interval '1 day' as soon from work.${sql(table)}`,
      ).toEqual([{ tries: 1001, soon: true }]);
  });

  it.each([
    ['removes its job without one', false, null],
    ['schedules one too', true, RECORD],
  ])(
    'a clean-up that a mover schedules waits for its job, if the log %s',
    async (_, leftovers, record) => {
      const { sql } = installation;
      await addJob();
      const state = { status: 'completed', facts: { size_bytes: 5 } } as Transfer;
      await cleanUpIfEnded(sql, { transferId, accountId, destination }, state);
      expect(await takeCleanup(sql, [])).toBeNull();
      await removeJobs(sql, [
        { transferId, leftovers, completed: true, size: 5, after: false, aborted: false },
      ]);
      expect(await takeCleanup(sql, [])).toMatchObject({
        transfer_id: transferId,
        resume_record: record,
        completed: true,
      });
    },
  );

  it('end a clean-up only with the try that was taken last', async () => {
    const { sql } = installation;
    await addJob();
    await ended(false);
    const again = () =>
      cleanUpIfEnded(sql, { transferId, accountId, destination }, { status: 'failed' } as Transfer);
    const slow = (await takeCleanup(sql, [])) as Cleanup;
    await again();
    const last = (await takeCleanup(sql, [])) as Cleanup;
    expect([slow, last]).toMatchObject([{ tries: 1 }, { tries: 1 }]);
    await endCleanup(sql, slow);
    expect(await sql`select from work.cleanups`).toHaveLength(1);
    await endCleanup(sql, last);
    expect(await sql`select from work.cleanups`).toHaveLength(0);
  });

  it('begin again after another lost connection, also during a look', async () => {
    const { sql } = installation;
    await late();
    await due();
    await endLook(sql, (await take()) as LateLook);
    await due();
    const look = await take();
    await late();
    await endLook(sql, look as LateLook);
    expect(await rows()).toMatchObject([{ looks: 0, tries: 0, wait: 1 }]);
  });

  it('at a destination wait for the end of the transfer and its clean-up', async () => {
    const { sql } = installation;
    await lookLaterForLost(sql, transferId);
    expect(await rows()).toEqual([]);
    await addJob();
    await lookLaterForLost(sql, transferId);
    expect(await rows()).toMatchObject([{ state: RECORD }]);
    await due();
    expect(await take()).toBeNull();
    await ended(false);
    expect(await take()).toBeNull();
    await endCleanup(sql, (await takeCleanup(sql, [])) as Cleanup);
    expect(await take()).toMatchObject({ transfer_id: transferId });
  });

  it('follow an abort, of which the mover may know nothing', async () => {
    await addJob();
    await ended(false);
    expect(await rows()).toEqual([]);
    await addJob();
    await ended(true);
    expect(await rows()).toMatchObject([{ side: 'destination', state: RECORD }]);
  });

  it('at a source follow an interrupted try, and wait for the end of the step', async () => {
    const { sql } = installation;
    await sql`insert into work.after_steps (transfer_id) values (${transferId})`;
    const room = { answering: 1, unproven: 1, unread: 1, endpoints: [] };
    const [claim] = (await claimSteps(sql, room)) as [ClaimedSteps];
    const of = { facts: { account_id: accountId, source: 'sftp://alpha/a' } };
    expect(await beginSourceStep(sql, claim, of)).toBe(1);
    expect(await rows()).toEqual([]);
    expect(await beginSourceStep(sql, { ...claim, begun: true }, of)).toBe(2);
    expect(await beginSourceStep(sql, { ...claim, begun: true }, of)).toBe(3);
    const state = { tried: 3 };
    expect(await rows()).toMatchObject([{ side: 'source', uri: of.facts.source, state }]);
    expect(await beginSourceStep(sql, { ...claim, claimId: 'lost', begun: true }, of)).toBeNull();
    await due();
    expect(await take()).toBeNull();
    await sql`delete from work.after_steps`;
    expect(await take()).toMatchObject({ side: 'source', state });
  });
});
