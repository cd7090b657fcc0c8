import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test, vi } from 'vitest';
import { sha256At, uriOf, whyNotAll } from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { LONG } from '../support/run/long.ts';
import { submit } from '../support/service/installation.ts';
import { spawnMover } from '../support/service/roles.ts';
import { historyOf, retriesOf, until, untilEnded } from '../support/service/transfers.ts';
import { MiB, useTakeover } from './takeover.ts';

vi.setConfig({ testTimeout: 120_000 });

const whyNot = whyNotAll(['sftp']);

describeWithPostgres('a mover to which a server gives no connection', () => {
  const takeover = useTakeover();

  async function startMover(changes: Record<string, string> = {}) {
    const mover = await spawnMover(takeover.installation.environment, changes);
    onTestFinished(() => mover.kill());
    return mover;
  }

  test.skipIf(whyNot)(
    'leaves the endpoint to a mover that moves bytes there, without a retry',
    LONG,
    async () => {
      const { installation } = takeover;
      const source = await takeover.start('s3-strict');
      const destination = await takeover.start('sftp');
      const { proxy } = destination;
      const move = async (file: string, bytes: number) => {
        await source.put(file, randomBytes(bytes));
        return submit(installation, uriOf('s3-strict', file), uriOf('sftp', file));
      };
      const moves = async (id: string) => {
        const [row] = await installation.sql<{ moves: boolean }[]>`
          select speed_bps is not null as moves from work.transfer_jobs where transfer_id = ${id}`;
        return row?.moves;
      };

      proxy.throttle(MiB);
      await startMover({ WAYBILL_MOVERS: '1' });
      const first = await move('first', 24 * MiB);
      await until('its bytes move', () => moves(first));
      // As a server does that has all connections that it accepts. Those that are open stay.
      await proxy.refuse(true);
      const other = await startMover();
      const second = await move('second', MiB);
      await until('the other mover leaves the file', () =>
        other.output().includes('fewer connections than max_connections'),
      );
      proxy.throttle(Number.POSITIVE_INFINITY);
      for (const [file, id] of [
        ['first', first],
        ['second', second],
      ] as const) {
        const { status, facts } = await untilEnded(installation, id, 60);
        expect({ status, retries: facts.retry_count }).toEqual({ status: 'completed', retries: 0 });
        expect(await sha256At(destination, file)).toBe(await sha256At(source, file));
      }
      const left = (await historyOf(installation, second)).map(({ data }) => data);
      expect(left).toContainEqual(expect.objectContaining({ given_back: 'no_connection' }));
    },
  );

  test.skipIf(whyNot)('retries if no other mover has a connection either', async () => {
    const { installation } = takeover;
    const source = await takeover.start('s3-strict');
    const { proxy } = await takeover.start('sftp');
    await proxy.refuse(true);
    await startMover();
    await source.put('third', randomBytes(MiB));
    const id = await submit(installation, uriOf('s3-strict', 'third'), uriOf('sftp', 'third'));
    await until('it is retried', async () => (await retriesOf(installation, id)).length > 0);
    expect(await retriesOf(installation, id)).toMatchObject([{ code: 'connection_failed' }]);
    await proxy.refuse(false);
  });
});
