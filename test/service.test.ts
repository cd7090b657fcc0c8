import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { cryptoInUse } from '../src/adapters/files/sftp/crypto-in-use.ts';
import { connect } from '../src/adapters/postgres/connect.ts';
import { createKey } from '../src/commands/keys.ts';
import { keyRequest } from '../src/contract/keys.ts';
import { PROCESS_ROLES } from '../src/process-roles.ts';
import { startService } from '../src/service.ts';
import { createProxiedDatabase } from './support/postgres/proxied.ts';
import { describeWithPostgres } from './support/postgres/test-database.ts';
import { LONG } from './support/run/long.ts';
import { CAUSE, openTestInstallation } from './support/service/installation.ts';
import { until } from './support/service/transfers.ts';

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
  it('ends although a statement waits for its answer', LONG, async () => {
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

describeWithPostgres('a service whose Postgres refuses its sessions', () => {
  // As during a restore of the database, or while its administrator changes the user.
  it.each([
    ['accepts no connections', 'with allow_connections false', 'with allow_connections true'],
    ['is gone', 'rename to NAME_away', null],
  ])('answers 503 and continues: its database %s', { timeout: 60_000 }, async (_, take, give) => {
    const installation = await openTestInstallation();
    onTestFinished(() => installation.close());
    const service = await startService(installation, PROCESS_ROLES);
    onTestFinished(() => service.stop());
    const ended = service.failed.catch((error: Error) => error);
    const request = keyRequest.parse({ name: 'a client', scopes: ['transfers:read'] });
    const { key } = await createKey(installation.commands, request, CAUSE, {
      allowNever: false,
    });
    const headers = { authorization: `Bearer ${key}` };
    const list = async () => {
      const response = await fetch(`${service.url}/v1/transfers`, { headers });
      await response.text();
      return response.status;
    };
    expect(await list()).toBe(200);

    const url = new URL(installation.environment.DATABASE_URL as string);
    const name = url.pathname.slice(1);
    url.pathname = 'template1';
    const admin = connect(url.href, { max: 1 });
    onTestFinished(() => admin.end());
    const disconnect = () => admin`
      select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
    await until('the database is taken away', async () => {
      await disconnect();
      return admin.unsafe(`alter database ${name} ${take.replace('NAME', name)}`).then(
        () => true,
        () => false,
      );
    });
    await disconnect();
    const answers = new Set<number>();
    for (let i = 0; i < 20; i++, await sleep(200)) answers.add(await list());
    await admin.unsafe(
      give ? `alter database ${name} ${give}` : `alter database ${name}_away rename to ${name}`,
    );
    expect(answers).toEqual(new Set([503]));
    await until('it answers again', async () => (await list()) === 200);
    expect(await Promise.race([ended, sleep(0, 'it runs')])).toBe('it runs');
  });
});
