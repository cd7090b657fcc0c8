import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { newId } from '../../src/domain/ids.ts';
import { beginSourceStep, type ClaimedSteps, claimSteps } from '../../src/processes/after/table.ts';
import {
  endCleanup,
  lookLater,
  lookLaterForLost,
  removeJobs,
  takeDueCleanups,
  takeLooks,
} from '../../src/processes/dispatch/cleanups.ts';
import { saveJobs } from '../../src/processes/dispatch/job-table/jobs.ts';
import { endLook, giveUpLooks, type LateLook } from '../../src/processes/late-looks.ts';
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
  const take = (avoided: string[] = []) => takeLooks(installation.sql, 4, avoided);
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

  it('are at most as many as asked for, and so are clean-ups, whatever the statistics say', async () => {
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
      const taken = table === 'cleanups' ? takeDueCleanups(sql, 4, []) : take();
      expect(await taken).toHaveLength(4);
      await sql`delete from work.${sql(table)}`;
    }
  });

  it('take place six times, ever later', async () => {
    const { sql } = installation;
    await late();
    const waits: number[] = [];
    for (let [row] = await rows(); row; [row] = await rows()) {
      waits.push(row.wait);
      expect(await take()).toEqual([]);
      await due();
      const [look] = await take();
      expect(look).toMatchObject({ side: 'destination', uri: destination, state: null, tries: 1 });
      await endLook(sql, look as LateLook);
    }
    expect(waits).toEqual([1, 4, 16, 64, 256, 1_024]);
  });

  it('are tried again after a failure, and can be given up', async () => {
    await late();
    await due();
    expect(await take(['sftp://beta/'])).toEqual([]);
    await take();
    expect(await rows()).toMatchObject([{ looks: 0, tries: 1, wait: 1 }]);
    await due();
    const [again] = await take();
    expect(await rows()).toMatchObject([{ looks: 0, tries: 2, wait: 2 }]);
    await giveUpLooks(installation.sql, again as LateLook);
    expect(await rows()).toEqual([]);
  });

  it('begin again after another lost connection, also during a look', async () => {
    const { sql } = installation;
    await late();
    await due();
    await endLook(sql, (await take())[0] as LateLook);
    await due();
    const [look] = await take();
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
    expect(await take()).toEqual([]);
    await ended(false);
    expect(await take()).toEqual([]);
    await endCleanup(sql, { transfer_id: transferId, tries: 0 });
    expect(await take()).toHaveLength(1);
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
    expect(await take()).toEqual([]);
    await sql`delete from work.after_steps`;
    expect(await take()).toMatchObject([{ side: 'source', state }]);
  });
});
