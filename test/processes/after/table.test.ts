import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { pauseEndpoint } from '../../../src/commands/endpoints.ts';
import { saveEndpoint } from '../../../src/commands/save-endpoint.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import type { Room } from '../../../src/processes/after/places.ts';
import { claimSteps, releaseSteps, renewClaims } from '../../../src/processes/after/table.ts';
import { holdSignIn } from '../../../src/processes/endpoints/sign-in-holds.ts';
import { findEndpoint } from '../../../src/projections/catalog/queries.ts';
import { rowsRead } from '../../support/postgres/rows-read.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';

const ROOM: Room = { answering: 16, unproven: 16, unread: 16, endpoints: [] };
const MANY = 100_000;

const answering = (endpointId: string, free = 4) => ({ endpointId, free, answers: true });
const unproven = (endpointId: string, free = 1) => ({ endpointId, free, answers: false });

describeWithPostgres('the steps after transfers', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  beforeEach(() => installation.sql`delete from work.after_steps`);
  afterAll(() => installation?.close());

  /** Adds steps `ENDPOINT 1`, `ENDPOINT 2` and so on, which were due a second after each other. */
  const add = (endpointId: string, count = 1) => installation.sql`
    insert into work.after_steps (transfer_id, endpoint_id, due_at)
    select ${endpointId} || ' ' || n, ${endpointId}, now() - interval '2 days' + n * interval '1 s'
      from generate_series(1, ${count}::integer) n`;

  async function claimed(changes: Partial<Room>): Promise<string[]> {
    const claims = await claimSteps(installation.sql, { ...ROOM, ...changes });
    return claims.map(({ transferId }) => transferId).sort();
  }

  it('are claimed oldest first, within the free places of each endpoint', async () => {
    const { sql } = installation;
    await add('busy', 10);
    await add('full', 10);
    await add('new', 10);
    await add('', 2);
    await sql`
      insert into work.after_steps (transfer_id, endpoint_id, due_at)
      values ('later', 'quiet', now() + interval '1 hour')`;
    const endpoints = [answering('busy', 3), answering('full', 0), answering('quiet')];
    expect(await claimed({ endpoints })).toEqual([
      ' 1',
      ' 2',
      'busy 1',
      'busy 2',
      'busy 3',
      'new 1',
    ]);
    expect(await claimed({ endpoints })).toEqual(['busy 4', 'busy 5', 'busy 6', 'new 2']);
  });

  it('of endpoints that answer leave places to the others, and the other way round', async () => {
    await add('busy', 10);
    await add('new', 10);
    await add('silent', 10);
    await add('', 10);
    const endpoints = [answering('busy'), unproven('silent', 4)];
    const none = { answering: 0, unproven: 0, unread: 0, endpoints };
    expect(await claimed({ ...none, answering: 2 })).toEqual(['busy 1', 'busy 2']);
    expect(await claimed({ ...none, unproven: 3 })).toEqual(['new 1', 'silent 1', 'silent 2']);
    expect(await claimed({ ...none, unread: 1 })).toEqual([' 1']);
    expect(await claimed(none)).toEqual([]);
  });

  it('of endpoints take turns: the one that was tried longest ago goes first', async () => {
    for (const endpointId of ['a', 'b', 'c', 'd']) await add(endpointId, 10);
    const tried = [unproven('c'), unproven('a'), unproven('b')];
    expect(await claimed({ unproven: 1, endpoints: tried })).toEqual(['d 1']);
    expect(await claimed({ unproven: 2, endpoints: [...tried, unproven('d')] })).toEqual([
      'a 1',
      'c 1',
    ]);
    const answer = ['c', 'a', 'b', 'd'].map((endpointId) => answering(endpointId));
    expect(await claimed({ answering: 5, endpoints: answer })).toEqual([
      'a 2',
      'b 1',
      'c 2',
      'c 3',
      'd 2',
    ]);
  });

  it('are claimed once, and none is missed, if processes claim at the same time', async () => {
    await add('busy', 10);
    await add('locked');
    const endpoints = [answering('busy')];
    await installation.sql.begin(async (tx) => {
      await tx`select from work.after_steps where endpoint_id = 'locked' for update`;
      const claims = await Promise.all([1, 2, 3].map(() => claimed({ endpoints })));
      expect(claims.map(({ length }) => length).sort()).toEqual([2, 4, 4]);
      expect(new Set(claims.flat()).size).toBe(10);
    });
    expect(await claimed({ endpoints })).toEqual(['locked 1']);
  });

  it('of a paused endpoint, or one whose sign-ins are on hold, are not claimed', async () => {
    const { commands, sql } = installation;
    const request = { protocol: 'sftp', host: '127.0.0.1', port: 1, username: 'me', password: 'x' };
    const configure = (name: string) => configureEndpoint(installation, { ...request, name });
    const [paused, held] = [await configure('paused'), await configure('held')];
    await pauseEndpoint(commands, paused, CAUSE);
    await commands.catchUp('catalog');
    const configured = await findEndpoint(installation, held);
    await holdSignIn(sql, configured as NonNullable<typeof configured>);
    await add(paused);
    await add(held);
    expect(await claimed({})).toEqual([]);
    const again = endpointRequest.parse({ ...request, name: 'held', password: 'y' });
    await saveEndpoint(commands, again, CAUSE);
    await commands.catchUp('catalog');
    expect(await claimed({})).toEqual([`${held} 1`]);
  });

  it('are claimed without a look at all of them, however many wait for one server', async () => {
    const { sql } = installation;
    await add('healthy', 2);
    await claimed({ endpoints: [answering('healthy')] });
    await add('down', MANY);
    await add('up');
    const full = { unproven: 2, endpoints: [answering('full', 0), unproven('down', 0)] };
    const free = { endpoints: [unproven('down')] };
    for (const [changes, found] of [
      [full, ['up 1']],
      [free, ['down 1']],
    ] as const) {
      await sql.begin(async (tx) => {
        expect(
          (await claimSteps(tx as never, { ...ROOM, ...changes })).map((row) => row.transferId),
        ).toEqual(found);
        expect(await rowsRead(tx, 'work.after_steps')).toBeLessThan(100);
      });
    }
  });

  it('keep their claim while it is renewed, and lose it to the next one afterwards', async () => {
    const { sql } = installation;
    await add('one');
    const [claim] = await claimSteps(sql, ROOM);
    const expire = () => sql`update work.after_steps set lease_until = now() - interval '1 second'`;
    await expire();
    await renewClaims(sql, claim ? [claim] : []);
    expect(await claimSteps(sql, ROOM)).toEqual([]);
    await expire();
    const [next] = await claimSteps(sql, ROOM);
    expect(next?.claimId).not.toBe(claim?.claimId);
    await renewClaims(sql, claim ? [claim] : []);
    expect(await sql`select claim_id from work.after_steps`).toEqual([{ claim_id: next?.claimId }]);
  });

  it('that are given back say where and why', async () => {
    const { sql } = installation;
    await add('');
    const error = { code: 'timeout', message: 'no answer' } as const;
    for (const claim of await claimSteps(sql, ROOM))
      await releaseSteps(
        sql,
        { ...claim, tries: 1, refusals: 2, endpointId: 'end_down', error },
        60_000,
      );
    expect(await sql`select endpoint_id, error, tries, claim_id from work.after_steps`).toEqual([
      { endpoint_id: 'end_down', error, tries: 1, claim_id: null },
    ]);
    await sql`update work.after_steps set due_at = now()`;
    expect(await claimSteps(sql, ROOM)).toMatchObject([{ tries: 1, refusals: 2 }]);
  });
});
