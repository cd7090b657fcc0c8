import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { PROCESS_ROLES } from '../src/process-roles.ts';
import { startService } from '../src/service.ts';
import { openTestInstallation } from './support/installation.ts';
import { describeWithPostgres } from './support/postgres.ts';
import { createProxiedDatabase } from './support/postgres-proxy.ts';

describeWithPostgres('a service whose Postgres is silent', () => {
  it('ends within the 30 s that supervisors usually wait', { timeout: 60_000 }, async () => {
    const database = await createProxiedDatabase();
    onTestFinished(() => database.drop());
    const installation = await openTestInstallation({ DATABASE_URL: database.url });
    const service = await startService(installation, PROCESS_ROLES);
    await sleep(1_000);
    database.proxy.stall(true);
    await sleep(1_000);
    const started = performance.now();
    await service.stop();
    await installation.close();
    expect(performance.now() - started).toBeLessThan(30_000);
  });
});
