import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../../src/commands/endpoints.ts';
import { claimTransfers } from '../../../src/processes/dispatch/claims.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';

/** Connections of each endpoint. */
const ENDPOINTS = { s: 1, e: 1, pair: 2, hub: 4, wide: 50, x: 50, y: 50 };
type EndpointName = keyof typeof ENDPOINTS;
type Route = `${EndpointName} > ${EndpointName}`;

describeWithPostgres('claims', () => {
  let installation: TestInstallation;
  const ids = new Map<string, string>();

  beforeAll(async () => {
    installation = await openTestInstallation();
    for (const [name, connections] of Object.entries(ENDPOINTS)) {
      const id = await configureEndpoint(installation, {
        name,
        protocol: 'sftp',
        host: 'files.example.com',
        username: 'me',
        password: 'secret-1',
        max_connections: connections,
      });
      ids.set(name, id);
    }
    await installation.commands.catchUp('catalog');
  });
  afterEach(() => installation.sql`truncate work.transfer_jobs`);
  afterAll(() => installation?.close());

  /** Creates a transfer that has been due for this many minutes. */
  async function due(
    id: string,
    route: Route,
    { minutes = 1, account = 'acc_a' }: { minutes?: number; account?: string } = {},
  ): Promise<void> {
    const [source, destination] = route.split(' > ').map((name) => ids.get(name) as string);
    await installation.sql`
      insert into work.transfer_jobs (transfer_id, account_id, status, revision, priority, source,
        destination, source_endpoint_id, destination_endpoint_id, due_at, rank)
      select ${id}, ${account}, 'queued', 1, 'normal', 'sftp://files/a', 'sftp://files/b',
             ${source as string}, ${destination as string}, at, at
        from (select now() - ${minutes} * interval '1 minute' as at) t`;
  }
  /** Creates a transfer that moves. Nothing else may be due. */
  async function moving(id: string, ...more: [Route, Parameters<typeof due>[2]?]): Promise<void> {
    await due(id, ...more);
    expect(await claim(1)).toEqual([id]);
  }
  const claim = async (count: number, leftToOthers: string[] = []) =>
    (await claimTransfers(installation.sql, 'prc_test', count, { leftToOthers })).map(
      ({ transferId }) => transferId,
    );
  /** Ends or cancels a transfer. */
  const end = (id: string) =>
    installation.sql`delete from work.transfer_jobs where transfer_id = ${id}`;

  /** One transfer has waited for 20 minutes for two endpoints. Both are busy with other work. */
  async function waitForBothEnds(): Promise<void> {
    await moving('from s', 's > x');
    await moving('to e', 'y > e');
    await due('waits', 's > e', { minutes: 20 });
    await due('next from s', 's > x');
    await due('next to e', 'y > e');
    expect(await claim(5)).toEqual([]);
  }

  it('keep a place at one end until the other end has one too', async () => {
    await waitForBothEnds();
    await end('from s');
    expect(await claim(1)).toEqual([]);
    expect(await claim(5)).toEqual([]);
    await end('to e');
    expect(await claim(5)).toEqual(['waits']);
    await end('waits');
    expect((await claim(5)).sort()).toEqual(['next from s', 'next to e']);
  });

  it('keep no place for a transfer that waits for less than ten minutes', async () => {
    await moving('from s', 's > x');
    await moving('to e', 'y > e');
    await due('waits', 's > e', { minutes: 9 });
    await due('next from s', 's > x');
    await end('from s');
    expect(await claim(1)).toEqual(['next from s']);
  });

  it('give a kept place to others when its transfer is cancelled', async () => {
    await waitForBothEnds();
    await end('from s');
    expect(await claim(1)).toEqual([]);
    await end('waits');
    expect(await claim(1)).toEqual(['next from s']);
  });

  it('keep no place for a transfer whose other end is paused or left to others', async () => {
    await waitForBothEnds();
    await end('from s');
    const { commands } = installation;
    const e = ids.get('e') as string;
    await pauseEndpoint(commands, e, CAUSE);
    await commands.catchUp('catalog');
    expect(await claim(1)).toEqual(['next from s']);
    await resumeEndpoint(commands, e, CAUSE);
    await commands.catchUp('catalog');
    await end('next from s');
    await due('last from s', 's > x');
    expect(await claim(1)).toEqual([]);
    expect(await claim(1, [e])).toEqual(['last from s']);
  });

  it('keep no place idle for longer than a quarter of the time that its transfer waits', async () => {
    await waitForBothEnds();
    await end('from s');
    const secondsLeft = (seconds: number) => installation.sql`
      update work.transfer_jobs
         set size_bytes = ${1_000 * seconds}, transferred_bytes = 0, speed_bps = 8000
       where transfer_id = 'to e'`;
    await secondsLeft(250);
    expect(await claim(1)).toEqual([]);
    await secondsLeft(350);
    expect(await claim(1)).toEqual(['next from s']);
  });

  it('let two transfers that need the same two places go one after the other', async () => {
    await moving('from s', 's > x');
    await moving('to e', 'y > e');
    await due('second', 'e > s', { minutes: 20 });
    await due('first', 's > e', { minutes: 30 });
    await due('next from s', 's > x');
    await due('next to e', 'y > e');
    await end('to e');
    expect(await claim(5)).toEqual([]);
    await end('from s');
    expect(await claim(5)).toEqual(['first']);
    await end('first');
    expect(await claim(5)).toEqual(['second']);
  });

  it('keep a place for an account that moves more than others, but elsewhere', async () => {
    const account = 'acc_b';
    for (const id of ['b 1', 'b 2', 'b 3']) await moving(id, 'x > wide', { account });
    await moving('a 1', 'x > pair');
    await due('waits', 'x > pair', { minutes: 20, account });
    await due('a 2', 'x > pair');
    await due('a 3', 'x > wide');
    // The slots of movers are shared as ever.
    expect(await claim(1)).toEqual(['a 3']);
    expect(await claim(1)).toEqual(['waits']);
    await end('a 1');
    expect(await claim(1)).toEqual(['a 2']);
  });

  it('share an endpoint also with an account that has an old queue on many routes', async () => {
    const routes: Route[] = ['hub > wide', 'hub > x', 'hub > y', 'hub > pair'];
    for (const route of routes.slice(0, 3)) await moving(`moves ${route}`, route, { minutes: 90 });
    for (const route of routes) await due(`waits ${route}`, route, { minutes: 60 });
    await due('other', 'hub > wide', { account: 'acc_b' });
    expect(await claim(1)).toEqual(['other']);
  });
});
