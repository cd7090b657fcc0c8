import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { PROCESS_ROLES } from '../src/process-roles.ts';
import { startService } from '../src/service.ts';
import { openTestInstallation } from './support/installation.ts';
import { describeWithPostgres } from './support/postgres.ts';
import { createProxiedDatabase } from './support/postgres-proxy.ts';

describeWithPostgres('a service whose Postgres is silent', () => {
  // Supervisors usually wait for 30 s. The pool of `patient` waits for each answer without a limit.
  it('ends although a statement waits for its answer', async () => {
    const database = await createProxiedDatabase();
    onTestFinished(() => database.drop());
    const installation = await openTestInstallation({ DATABASE_URL: database.url });
    const service = await startService(installation, PROCESS_ROLES);
    await sleep(1_000);
    const { sql, patient } = installation;
    await Promise.all([sql`select 1`, patient`select 1`]);
    database.proxy.stall(true);
    const codes = [sql, patient].map((pool) =>
      pool`select 1`.then(
        () => 'answered',
        (error: { code?: string }) => error.code,
      ),
    );
    await sleep(1_000);
    await service.stop();
    await installation.close();
    // The end of the pools ended them, and not the limit of an answer, which is a minute.
    expect(await Promise.all(codes)).toEqual(['CONNECTION_DESTROYED', 'CONNECTION_DESTROYED']);
  });
});
