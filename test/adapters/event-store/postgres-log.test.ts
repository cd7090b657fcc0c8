import { expect, inject, it } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../src/adapters/event-store/postgres-log.ts';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { createTestDatabase } from '../../support/postgres.ts';
import { describeEventStore, type Engine } from './contract.ts';
import { event } from './events.ts';

async function startEngine(): Promise<Engine> {
  const { url, sql, drop } = await createTestDatabase();
  const administrator = connect(url, { max: 1 });
  const stores: EventStore[] = [];
  return {
    async open(prefix) {
      const store = createPostgresLog({ sql, prefix });
      stores.push(store);
      return store;
    },
    async drop() {
      await administrator`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`;
    },
    async close() {
      await Promise.all(stores.map((store) => store.close()));
      await administrator.end();
      await drop();
    },
  };
}

const postgres = inject('postgres');
describeEventStore('Postgres', startEngine, postgres.state === 'ready' ? null : `no Postgres: ${postgres.reason}`);

it('gives up once for all who wait, where Postgres does not answer', async () => {
  const sql = connect('postgres://nobody@127.0.0.1:1/nothing');
  const store = createPostgresLog({ sql, prefix: 'test_' });
  const appends = ['a', 'b', 'c', 'd'].map((stream) => store.append(stream, 'no_stream', [event()]));
  const outcomes = await Promise.allSettled(appends);
  for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: expect.any(EventStoreUnavailable) });
  await sql.end();
});
