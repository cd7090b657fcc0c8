import { afterAll, beforeAll, expect, test } from 'vitest';
import { takeSample } from '../../src/processes/housekeeping/samples.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

describeWithPostgres('operations', () => {
  let api: TestApi;
  let admin: string;
  beforeAll(async () => {
    api = await startApi();
    admin = (await api.createKey(['admin'])).key;
  });
  afterAll(() => api?.close());

  const ask = (path: string, key = admin) => api.ask('GET', path, { key });

  test('show the live movers, and the waiting and moving transfers', async () => {
    const { sql } = api.installation;
    await sql`insert into work.movers (process_id, slots, active, mean_duration_ms, seen_at) values
      ('here', 16, 2, 12.5, now()), ('gone', 16, 0, null, now() - interval '1 minute')`;
    await sql`
      insert into work.transfer_jobs (transfer_id, account_id, status, revision, priority, rank,
          due_at, source, destination, destination_endpoint_id, claim_id, lease_until, speed_bps)
      values ('a', 'x', 'queued', 1, 'high', now(), now(), 's', 'd', 'e', null, null, null),
             ('b', 'x', 'queued', 1, 'normal', now(), now() + interval '1 hour', 's', 'd', 'e',
             null, null, null),
             ('c', 'x', 'in_progress', 1, 'normal', now(), now(), 's', 'd', 'e', 'clm',
             now() + interval '1 hour', 800)`;
    expect(await ask('/v1/movers')).toMatchObject({
      status: 200,
      body: {
        data: [
          {
            id: 'here',
            slots: 16,
            active: 2,
            mean_duration_ms: 12.5,
            seen_at: expect.stringMatching(/Z$/),
          },
        ],
        queue: [
          { priority: 'low', due: 0, later: 0, moving: 0, speed_bps: 0 },
          { priority: 'normal', due: 0, later: 1, moving: 1, speed_bps: 800 },
          { priority: 'high', due: 1, later: 0, moving: 0, speed_bps: 0 },
        ],
      },
    });
    await sql`delete from work.transfer_jobs`;
  });

  test('show the work over time: the difference between samples, up to now', async () => {
    const { sql } = api.installation;
    const sample = (ago: string, figures: number[]) => {
      const [created, completed, failed, cancelled, waiting, moving, moved] = figures as [
        number,
        number,
        number,
        number,
        number,
        number,
        number,
      ];
      return sql`
        insert into work.samples (at, created, completed, failed, cancelled, waiting, moving,
            moved_bytes)
        values (date_bin('5 minutes', now(), 'epoch') - ${ago}::interval, ${created}, ${completed},
                ${failed}, ${cancelled}, ${waiting}, ${moving}, ${moved})`;
    };
    await sample('60 minutes', [10, 5, 1, 0, 9, 1, 1_000]);
    await sample('30 minutes', [14, 8, 2, 1, 4, 2, 301_000]);
    await sample('29 minutes', [14, 9, 2, 1, 3, 1, 466_000]);
    const { status, body } = await ask('/v1/operations/series');
    expect(status).toBe(200);
    expect(body.data).toMatchObject([
      {
        seconds: 300,
        created: 4,
        completed: 4,
        failed: 1,
        cancelled: 1,
        waiting: 4,
        moving: 2,
        moved_bytes: 465_000,
        // In the 31 minutes since the sample before.
        speed_bps: 2000,
      },
      // The last entry is now. This log has none of the transfers above.
      { created: 0, completed: 0 },
    ]);
    expect(body.data[0].at < body.data[1].at).toBe(true);
    expect((await ask('/v1/operations/series?hours=168')).body.data.at(-1)).toMatchObject({
      seconds: 2100,
    });
  });

  test('are sampled once a minute, and deleted after eight days', async () => {
    const { sql } = api.installation;
    await sql`update work.samples set at = at - interval '9 days'`;
    await api.ask('POST', '/v1/transfers', {
      json: { source_uri: 'sftp://elsewhere/x', destination_uri: 's3://archive/' },
    });
    await api.installation.commands.catchUp('transfers');
    await takeSample(sql);
    await takeSample(sql);
    const rows = await sql<{ at: string; created: bigint }[]>`select at, created from work.samples`;
    expect(new Set(rows.map(({ at }) => at.slice(17)))).toEqual(new Set(['00.000Z']));
    expect(rows.every(({ created }) => created === 1n)).toBe(true);
  });

  test.each(['/v1/movers', '/v1/operations/series'])(
    '%s needs an admin key, and rejects unknown parameters',
    async (path) => {
      expect(await ask(path, api.key)).toMatchObject({
        status: 403,
        body: { required_scope: 'admin' },
      });
      expect(await ask(`${path}?x=1`)).toMatchObject({
        status: 400,
        body: { code: 'unknown_field' },
      });
    },
  );

  test.each(['0', '169', 'x', ''])('reject hours=%s', async (hours) => {
    expect(await ask(`/v1/operations/series?hours=${hours}`)).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'hours' }] },
    });
  });
});
