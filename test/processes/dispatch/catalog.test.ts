import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../../src/commands/endpoints.ts';
import { parseConfig } from '../../../src/config.ts';
import { openInstallation } from '../../../src/installation.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { startRoles } from '../../support/service/roles.ts';
import { storyOf, until } from '../../support/service/transfers.ts';

vi.setConfig({ testTimeout: 60_000 });

describeWithPostgres('movers that start before the catalog is filled', () => {
  let installation: TestInstallation;
  let server: Server;
  let dialled = 0;
  let endpointId: string;

  beforeAll(async () => {
    installation = await openTestInstallation();
    server = createServer((socket) => {
      dialled++;
      socket.destroy();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    endpointId = await configureEndpoint(installation, {
      name: 'files',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: (server.address() as AddressInfo).port,
      base_path: '/',
      username: 'u',
      password: 'p',
      host_key_sha256: `SHA256:${'A'.repeat(43)}`,
    });
    await pauseEndpoint(installation.commands, endpointId, CAUSE);
  });
  afterAll(async () => {
    server?.close();
    await installation?.close();
  });

  test('wait for it: no queued transfer fails, and a paused endpoint is not dialled', async () => {
    const id = await submit(installation, 'sftp://files/a', 'sftp://files/b');
    await installation.sql`drop schema read cascade`;
    const reopened = await openInstallation(
      parseConfig(installation.environment),
      pino({ level: 'silent' }),
    );
    try {
      const mover = await startRoles(reopened, ['mover']);
      await until('it is in the queue', async () =>
        (await storyOf(installation, id)).includes('queued: admitted'),
      );
      await sleep(1_500);
      expect(await storyOf(installation, id)).toEqual(['created', 'queued: admitted']);

      const projector = await startRoles(reopened, ['projector']);
      await sleep(1_500);
      expect(await storyOf(installation, id)).toEqual(['created', 'queued: admitted']);
      expect(dialled).toBe(0);

      await resumeEndpoint(installation.commands, endpointId, CAUSE);
      await until('it is dialled, and waits for a retry', async () =>
        (await storyOf(installation, id)).includes('queued: retry'),
      );
      expect(dialled).toBeGreaterThan(0);

      // One that the catalog lacks is a reason to wait, too.
      await reopened.sql`delete from read.endpoints where endpoint_id = ${endpointId}`;
      await reopened.sql`
        update work.transfer_jobs set claim_id = null, claimed_by = null, lease_until = null,
               status = 'queued', due_at = now(), rank = now()`;
      const story = await storyOf(installation, id);
      await sleep(1_500);
      expect(await storyOf(installation, id)).toEqual(story);
      await mover.stop();
      await projector.stop();
    } finally {
      await reopened.close();
    }
  });
});
