import { afterAll, beforeAll, expect, it } from 'vitest';
import { claimSteps, releaseSteps, renewClaims } from '../../../src/processes/after/table.ts';
import { openTestInstallation, type TestInstallation } from '../../support/installation.ts';
import { describeWithPostgres } from '../../support/postgres.ts';

const EACH = 4;
const IDS = Array.from({ length: 16 }, (_, i) => `claim-${i}`);

describeWithPostgres('the steps after transfers', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  it('of one endpoint hold up no others, and are claimed oldest first', async () => {
    const { sql } = installation;
    await sql`
      insert into work.after_steps (transfer_id, endpoint_id, due_at)
      select 'txr_down_' || lpad(n::text, 3, '0'), 'end_down', now() - interval '1 hour' + n * interval '1 s'
        from generate_series(1, 300) n`;
    await sql`
      insert into work.after_steps (transfer_id, endpoint_id, due_at)
      values ('txr_up', 'end_up', now()), ('txr_unknown', '', now()),
             ('txr_later', 'end_up', now() + interval '1 hour')`;
    const taken = new Map<string, number>();
    const first = await claimSteps(sql, IDS, { each: EACH, taken });
    expect(first.map(({ transferId }) => transferId).sort()).toEqual(
      ['001', '002', '003', '004'].map((n) => `txr_down_${n}`),
    );
    taken.set('end_down', EACH);
    const second = await claimSteps(sql, IDS, { each: EACH, taken });
    expect(second.map(({ transferId }) => transferId).sort()).toEqual(['txr_unknown', 'txr_up']);
    taken.set('end_down', EACH - 1);
    const third = await claimSteps(sql, IDS, { each: EACH, taken });
    expect(third.map(({ transferId }) => transferId)).toEqual(['txr_down_005']);

    const error = { code: 'timeout', message: 'no answer' } as const;
    for (const claim of [...first, ...second, ...third])
      await releaseSteps(sql, { ...claim, tries: 1, endpointId: 'end_down', error }, 60_000);
    const [row] = await sql`
      select endpoint_id, error, tries, claim_id from work.after_steps
       where transfer_id = 'txr_unknown'`;
    expect(row).toEqual({ endpoint_id: 'end_down', error, tries: 1, claim_id: null });
  });

  it('keep their claim while it is renewed, and lose it to the next one afterwards', async () => {
    const { sql } = installation;
    await sql`delete from work.after_steps`;
    await sql`insert into work.after_steps (transfer_id) values ('txr_one')`;
    const places = { each: EACH, taken: new Map() };
    const [claim] = await claimSteps(sql, ['first'], places);
    const expire = () => sql`update work.after_steps set lease_until = now() - interval '1 second'`;
    await expire();
    await renewClaims(sql, claim ? [claim] : []);
    expect(await claimSteps(sql, ['second'], places)).toEqual([]);
    await expire();
    expect(await claimSteps(sql, ['second'], places)).toMatchObject([{ claimId: 'second' }]);
    await renewClaims(sql, claim ? [claim] : []);
    const [row] = await sql`select claim_id from work.after_steps`;
    expect(row).toEqual({ claim_id: 'second' });
  });
});
