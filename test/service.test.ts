import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { cryptoInUse } from '../src/adapters/files/sftp/crypto-in-use.ts';
import { PROCESS_ROLES } from '../src/process-roles.ts';
import { startService } from '../src/service.ts';
import { createProxiedDatabase } from './support/postgres/proxied.ts';
import { describeWithPostgres } from './support/postgres/test-database.ts';
import { openTestInstallation } from './support/service/installation.ts';

describeWithPostgres('a service with movers', () => {
  it('logs which crypto moves files over SSH: one of the two is slow', async () => {
    const installation = await openTestInstallation();
    onTestFinished(() => installation.close());
    const lines: Record<string, unknown>[] = [];
    const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
    const service = await startService({ ...installation, logger }, ['mover']);
    onTestFinished(() => service.stop());
    expect(lines.find(({ msg }) => msg === 'waybill runs')).toMatchObject({
      roles: ['mover'],
      ssh_crypto: cryptoInUse(),
    });
  });
});

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
