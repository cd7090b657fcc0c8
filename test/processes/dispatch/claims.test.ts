import { afterAll, beforeAll, expect, it } from 'vitest';
import { claimTransfers } from '../../../src/processes/dispatch/claims.ts';
import { type Service, startService } from '../../../src/service.ts';
import { rowsRead } from '../../support/postgres/rows-read.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';

const MOVING = 100;
const LIMIT = 50;
const QUEUE = 20_000;
const PLACES = 200;

describeWithPostgres('claims', () => {
  let installation: TestInstallation;
  let service: Service;
  let endpointId: string;

  beforeAll(async () => {
    installation = await openTestInstallation();
    const { sql } = installation;
    service = await startService(installation, ['projector']);
    endpointId = await configureEndpoint(installation, {
      name: 'files',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: 1,
      username: 'me',
      password: 'x',
      max_connections: PLACES,
    });
    await until(
      'the catalog has the endpoint',
      async () => (await sql`select from read.endpoints`).length === 1,
    );
  });
  afterAll(async () => {
    await service?.stop();
    await installation?.close();
  });

  it('read a small part of a long queue', async () => {
    const { sql } = installation;
    await fill(0, MOVING, 'clm_');
    await fill(MOVING, 1_000, null);
    expect(await rowsReadToClaim()).toBeGreaterThan(LIMIT);
    await fill(MOVING + 1_000, QUEUE, null);
    await sql`analyze work.transfer_jobs`;
    expect(await rowsReadToClaim()).toBeLessThan(QUEUE / 5);
  });

  it('pass over all transfers of a full endpoint at once', async () => {
    const { sql } = installation;
    await sql`
      update work.transfer_jobs set claim_id = 'clm_' || transfer_id
       where transfer_id in (select transfer_id from work.transfer_jobs limit ${PLACES})`;
    expect(await rowsReadToClaim(0)).toBeLessThan(QUEUE / 5);
  });

  /** Creates jobs that are due. They are claimed if `claims` is not null. */
  async function fill(first: number, count: number, claims: string | null): Promise<void> {
    await installation.sql`
      insert into work.transfer_jobs (transfer_id, account_id, status, revision, priority, source,
        destination, source_endpoint_id, destination_endpoint_id, claim_id, lease_until, due_at,
        rank)
      select 'txr_' || n, 'acc_default', 'queued', 1, 'normal', 'sftp://files/a',
             'sftp://files/' || n, ${endpointId}, ${endpointId}, ${claims} || n,
             case when ${claims !== null} then now() + interval '1 hour' end, now(), now()
        from generate_series(${first}::integer, ${first + count - 1}::integer) n`;
  }

  /** Claims jobs, and returns how many rows of the table it reads for that. */
  async function rowsReadToClaim(claimed = LIMIT): Promise<number> {
    return installation.sql.begin(async (tx) => {
      expect(await claimTransfers(tx, 'prc_test', LIMIT)).toHaveLength(claimed);
      return rowsRead(tx, 'work.transfer_jobs');
    });
  }
});
