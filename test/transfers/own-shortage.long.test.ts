import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test, vi } from 'vitest';
import { sha256At, uriOf, whyNotAll } from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { submit } from '../support/service/installation.ts';
import { type SpawnedService, spawnMover } from '../support/service/roles.ts';
import { historyOf, retriesOf, until, untilEnded } from '../support/service/transfers.ts';
import { useTakeover } from './takeover.ts';

vi.setConfig({ testTimeout: 120_000 });

const whyNot = whyNotAll(['sftp', 'ftps']);

/** Limits the open files of a running process. Those that it has stay open. */
function limitFiles({ pid }: SpawnedService, count: number): void {
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${count}:`]);
}

const CLAIMS_NOTHING = /"level":50.*too many open files.*claims no transfers/g;

describeWithPostgres('a mover with too many open files', () => {
  const takeover = useTakeover();

  test.skipIf(whyNot)('uses up no retry and does not blame the servers', async () => {
    const { installation } = takeover;
    const source = await takeover.start('sftp');
    const destination = await takeover.start('ftps');
    const mover = await spawnMover(installation.environment, {
      WAYBILL_TRANSFER_RETRY_DELAYS: '100ms',
    });
    onTestFinished(() => mover.kill());
    const move = async (file: string) => {
      await source.put(file, randomBytes(1_000));
      return submit(installation, uriOf('sftp', file), uriOf('ftps', file));
    };
    // It then has its connections to Postgres. With FTPS, each file takes a further one.
    await untilEnded(installation, await move('before'), 60);
    limitFiles(mover, 20);
    const files = ['first', 'second', 'third'];
    const ids: string[] = [];
    for (const file of files) ids.push(await move(file));
    await until(
      'it has tried three times',
      () => [...mover.output().matchAll(CLAIMS_NOTHING)].length >= 3,
    );
    expect(mover.output()).toContain('this process can open no files and no connections');

    limitFiles(mover, 10_000);
    for (const [i, id] of ids.entries()) {
      const { status, facts } = await untilEnded(installation, id, 60);
      expect({ status, retries: facts.retry_count }).toEqual({ status: 'completed', retries: 0 });
      expect(await retriesOf(installation, id)).toEqual([]);
      for (const { type, data } of await historyOf(installation, id))
        if (type === 'transfer.queued' && data.reason === 'mover_lost')
          expect(data.given_back).toBe('out_of_resources');
      const file = files[i] as string;
      expect(await sha256At(destination, file)).toBe(await sha256At(source, file));
    }
    expect(
      await installation.sql`select from work.endpoint_health where failures > 0`,
    ).toHaveLength(0);
    await until('it says so', () =>
      mover.output().includes('this process has what it needs to move files'),
    );
  });
});
