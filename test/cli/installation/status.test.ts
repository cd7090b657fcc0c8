import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { noteObservation } from '../../../src/processes/endpoints/connectivity.ts';
import { freePort } from '../../support/network/free-port.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import { CLI_TIMEOUT_MS, type Cli, createCli, settingsFor } from '../../support/service/cli.ts';
import { configureEndpoint, openTestInstallation } from '../../support/service/installation.ts';
import { appendTransfer } from '../../support/webhooks/webhooks.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

interface Part {
  name: string;
  state: string;
  detail: string;
  items: string[];
}

/** Returns an endpoint at which no server listens. */
async function closedEndpoint(name: string) {
  return {
    name,
    protocol: 'sftp' as const,
    host: '127.0.0.1',
    port: await freePort(),
    host_key_sha256: `SHA256:${'A'.repeat(43)}`,
    username: 'waybill',
    password: 'secret',
  };
}

describeWithPostgres('waybill status', () => {
  let database: TestDatabase;
  let cli: Cli;
  let service: ChildProcess | undefined;
  beforeAll(async () => {
    database = await createTestDatabase();
    cli = createCli({ ...settingsFor(database.url), WAYBILL_TRANSFER_RETRY_DELAYS: '10ms' });
  });
  afterAll(async () => {
    if (service) {
      service.kill();
      await once(service, 'exit');
    }
    await database.drop();
  });

  const run = async (args: string[], input?: unknown) => {
    const { code, stdout, stderr } = await cli.run(args, JSON.stringify(input));
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return stdout.trim();
  };
  const parts = async () => {
    const { code, json } = await cli.run(['status', '--json']);
    return { code, of: Object.fromEntries(json<Part>().map((part) => [part.name, part])) };
  };

  it('says what does not run', async () => {
    await run(['keys', 'create', '--name', 'night job', '--role', 'viewer', '--expires-in', '1h']);
    const before = await cli.run(['status']);
    expect(before.code).toBe(1);
    expect(before.stdout).toMatch(
      /^problem {2}log +\d of \d consumers are behind its end\n +no process follows it: does the service run\?$/m,
    );
    expect(before.stdout).toMatch(/^problem {2}movers +0 processes, 0 slots; /m);
    expect(before.stdout).toMatch(/^ok {7}transfers +of acc_default in 24 hours: none$/m);
    expect(before.stdout).toMatch(/^warning {2}keys +1 active\n +night job expires at 2/m);
  });

  it('judges what may be amiss as Home does: a warning, which is no problem', async () => {
    const installation = await openTestInstallation();
    try {
      const { sql, store, environment } = installation;
      const status = async () => {
        const found = await createCli(environment).run(['status', '--json']);
        return Object.fromEntries(found.json<Part>().map((part) => [part.name, part]));
      };
      expect(await status()).toMatchObject({
        waiting: { state: 'ok', detail: 'no transfers of acc_default for more than 15 minutes' },
        endpoints: { state: 'ok' },
      });

      const endpointId = await configureEndpoint(installation, await closedEndpoint('doubtful'));
      const probed = (code: 'connection_failed' | 'host_key_mismatch', message: string) =>
        noteObservation(sql, {
          endpointId,
          connected: code === 'host_key_mismatch',
          error: { code, message },
          probe: { latencyMs: 1, fingerprint: null },
        });
      await probed('connection_failed', 'connection refused');
      const created_at = new Date(Date.now() - 16 * 60_000).toISOString();
      const { transferId } = await appendTransfer(store, [], { created_at });
      await appendTransfer(store, [], { created_at: new Date().toISOString() });
      expect(await status()).toMatchObject({
        waiting: {
          state: 'warning',
          detail: '1 transfer of acc_default for more than 15 minutes',
          items: [
            expect.stringContaining(`1 pending, the oldest ${transferId} since ${created_at}`),
          ],
        },
        endpoints: {
          state: 'warning',
          items: [expect.stringMatching(/^doubtful: connection refused since 2/)],
        },
      });

      await probed('host_key_mismatch', 'another host key');
      expect(await status()).toMatchObject({ endpoints: { state: 'problem' } });
    } finally {
      await installation.close();
    }
  });

  it('says what needs attention while the service runs', LONG, async () => {
    service = cli.start(['serve', '--roles', 'projector,mover,webhooks,monitor']);
    await expect.poll(async () => (await parts()).code, { timeout: 60_000 }).toBe(0);
    expect((await parts()).of).toMatchObject({
      log: { state: 'ok', items: [] },
      movers: { state: 'ok', detail: expect.stringMatching(/^1 process, \d+ slots; 0 /) },
      endpoints: { state: 'ok', detail: '0, of which none paused' },
      flows: { state: 'ok', detail: '0 of acc_default' },
      waiting: { state: 'ok' },
      webhooks: { state: 'ok', detail: 'no failed deliveries of acc_default' },
      keys: { state: 'warning' },
    });

    await run(['endpoints', 'add', '--file', '-'], await closedEndpoint('partner'));
    const folders = ['sftp://partner/out/', 'sftp://partner/in/'];
    await run(['flows', 'create', ...folders, '--name', 'orders', '--every', '1h']);
    await run(['transfers', 'create', ...folders.map((folder) => `${folder}a.csv`)]);
    await expect
      .poll(async () => (await parts()).of, { timeout: 60_000 })
      .toMatchObject({
        transfers: {
          state: 'problem',
          detail: 'of acc_default in 24 hours: 1 failed',
          items: ['1 failed transfer was not retried', expect.stringMatching(/^1 connection_/)],
        },
        endpoints: { state: 'problem', items: [expect.stringMatching(/^partner: .* since 2/)] },
        flows: { state: 'problem', items: [expect.stringMatching(/^orders cannot list /)] },
      });
    expect((await parts()).code).toBe(1);
  });
});
