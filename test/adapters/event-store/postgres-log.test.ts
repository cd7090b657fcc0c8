import { inject } from 'vitest';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../src/adapters/event-store/postgres-log.ts';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { createTestDatabase } from '../../support/postgres.ts';
import { describeEventStore, type Engine } from './contract.ts';

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
