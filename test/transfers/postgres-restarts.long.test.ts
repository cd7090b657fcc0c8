import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterEach, expect, it } from 'vitest';
import { createKey } from '../../src/commands/keys.ts';
import { parseConfig } from '../../src/config.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { openInstallation } from '../../src/installation.ts';
import { PROCESS_ROLES } from '../../src/process-roles.ts';
import { type EndBy, startRestartablePostgres } from '../support/postgres/restartable.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE, configureEndpoint, transferInLog } from '../support/service/installation.ts';
import { spawnService } from '../support/service/roles.ts';

const WAYS: EndBy[] = ['SIGINT', 'SIGQUIT', 'SIGKILL', 'SIGINT'];
const CLIENTS = 4;

describeWithPostgres('a service whose Postgres restarts', () => {
  const undo: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });

  it('ends no process, answers every POST, and loses nothing', async () => {
    const server = await startRestartablePostgres();
    undo.push(() => server.stop());
    const environment = {
      DATABASE_URL: server.url,
      WAYBILL_MASTER_KEY: randomBytes(32).toString('base64'),
      WAYBILL_PORT: '0',
      WAYBILL_LOG_LEVEL: 'info',
      WAYBILL_RATE_LIMIT: '1000000',
    };
    const installation = await openInstallation(
      parseConfig(environment),
      pino({ level: 'silent' }),
    );
    undo.push(() => installation.close());
    await configureEndpoint(installation, {
      name: 'files',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: 1,
      username: 'me',
      password: 'x',
    });
    const request = keyRequest.parse({
      name: 'test',
      account: 'acc_default',
      scopes: ['transfers:write'],
      expires_in: '1h',
    });
    const { key } = await createKey(installation.commands, request, CAUSE, { allowNever: false });
    const service = await spawnService(environment, PROCESS_ROLES);
    undo.push(() => service.kill());
    const url = /"url":"([^"]+)"/.exec(service.output())?.[1];

    const accepted: string[] = [];
    const others: string[] = [];
    let running = true;
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (running) {
        try {
          const answer = await fetch(`${url}/v1/transfers`, {
            method: 'POST',
            headers: {
              authorization: `Bearer ${key}`,
              'content-type': 'application/json',
              'idempotency-key': randomUUID(),
            },
            body: `{"source_uri":"sftp://files/a","destination_uri":"sftp://files/${randomUUID()}"}`,
            signal: AbortSignal.timeout(20_000),
          });
          const body = (await answer.json()) as { id: string };
          if (answer.status === 201) accepted.push(body.id);
          else others.push(`${answer.status}`);
        } catch (error) {
          others.push(`${error}`);
        }
        await sleep(20);
      }
    });
    for (const by of WAYS) {
      await sleep(1_000);
      await server.restart(by);
      const before = accepted.length;
      await expect
        .poll(() => accepted.length, { timeout: 120_000 })
        .toBeGreaterThan(before + CLIENTS);
    }
    running = false;
    await Promise.all(clients);

    console.log(`${accepted.length} accepted; otherwise: ${JSON.stringify(count(others))}`);
    expect(others.filter((other) => other !== '503')).toEqual([]);
    for (const id of accepted)
      expect(await transferInLog(installation, id)).toMatchObject({ facts: { transfer_id: id } });
    expect(await service.stop()).toBe(0);
  }, 600_000);
});

function count(words: string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}
