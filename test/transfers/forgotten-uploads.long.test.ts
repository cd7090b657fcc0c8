import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openFileEndpoint } from '../../src/adapters/files/open.ts';
import { createEndpointPool } from '../../src/processes/endpoints/pool.ts';
import { runCleanUps } from '../../src/processes/mover/cleanup.ts';
import type { ProxiedEndpoint } from '../support/file-servers/behind-proxy.ts';
import { sha256At, uriOf, whyNotAll } from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { submit, untilStatus } from '../support/service/installation.ts';
import { expireLeases, storyOf, until, untilCleanedUp } from '../support/service/transfers.ts';
import { MiB, useTakeover } from './takeover.ts';

/** When an upload counts as forgotten. */
const LATER_MS = 6 * 60_000;

describeWithPostgres('an upload whose id its mover does not learn', () => {
  const takeover = useTakeover();
  const reason = whyNotAll(['sftp', 's3-ceph']);
  const testOnCeph = (name: string, body: () => Promise<void>) =>
    test.skipIf(reason)(reason ? `${name} (skipped: ${reason})` : name, { timeout: 90_000 }, body);

  testOnCeph('is removed by the clean-up if the mover dies', async () => {
    const { installation } = takeover;
    const [source, destination] = await start();
    const victim = await takeover.startMover();
    const held = destination.proxy.holdWhen(() => hasUpload(destination), 'down');
    const id = await submit(installation, uriOf('sftp', 'file'), uriOf('s3-ceph', 'folder/'));
    const release = await held;
    await victim.kill();
    void release();
    await expireLeases(installation);
    const successor = await takeover.startMover();
    await untilStatus(installation, id, ['completed', 'failed'], 60);
    await untilLookedFor(id);
    await successor.stop();
    await cleanUpLater(id);
    await takeover.expectArrived(id, destination, await sha256At(source, 'file'));
  });

  testOnCeph('is removed after a transfer whose first attempt completes', async () => {
    const { installation } = takeover;
    const [source, destination] = await start();
    const mover = await takeover.startMover();
    const lost = destination.proxy.cutWhen(() => hasUpload(destination), 'down');
    const id = await submit(installation, uriOf('sftp', 'file'), uriOf('s3-ceph', 'folder/'));
    await lost;
    await untilStatus(installation, id, ['completed', 'failed'], 60);
    expect((await storyOf(installation, id)).slice(-2)).toEqual(['in_progress', 'completed']);
    await untilLookedFor(id);
    await mover.stop();
    await cleanUpLater(id);
    expect(await sha256At(destination, 'folder/file')).toBe(await sha256At(source, 'file'));
    expect(await destination.names('folder')).toEqual(['folder/file']);
  });

  async function start(): Promise<[ProxiedEndpoint, ProxiedEndpoint]> {
    const [source, destination] = [await takeover.start('sftp'), await takeover.start('s3-ceph')];
    await source.put('file', randomBytes(9 * MiB));
    return [source, destination];
  }

  async function hasUpload(destination: ProxiedEndpoint): Promise<boolean> {
    return (await destination.names('folder')).some((name) => name.includes('(upload '));
  }

  /** The upload is then so young that another program may still use it. */
  async function untilLookedFor(id: string): Promise<void> {
    await until('a clean-up that looks again later', async () => {
      const { sql } = takeover.installation;
      const rows = await sql`select from work.cleanups where transfer_id = ${id} and tries > 0`;
      return rows.length > 0;
    });
  }

  async function cleanUpLater(id: string): Promise<void> {
    const { installation } = takeover;
    await installation.sql`update work.cleanups set due_at = now()`;
    const endpoints = createEndpointPool({ ...installation, open: openFileEndpoint });
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + LATER_MS);
    const stop = new AbortController();
    const running = runCleanUps({ ...installation, endpoints }, stop.signal);
    onTestFinished(async () => {
      vi.restoreAllMocks();
      stop.abort();
      await running;
      await endpoints.close();
    });
    await untilCleanedUp(installation, id);
  }
});
