import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
  sha256At,
  uriOf,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { submit, untilStatus } from '../support/service/installation.ts';
import { expireLeases, until } from '../support/service/transfers.ts';
import { MiB, useTakeover } from './takeover.ts';

const SIZE = 40 * MiB;
/** What the protocols send beside the bytes of the file. */
const OVERHEAD = MiB;
/** Every kind as the destination of the same source, and as the source. */
const PAIRS: { from: EndpointName; to: EndpointName }[] = [
  { from: 'azure', to: 'ftps' },
  { from: 'ftps', to: 's3-ceph' },
  ...ENDPOINT_NAMES.map((to) => ({
    from: to === 'sftp' ? ('ftps' as const) : ('sftp' as const),
    to,
  })),
  ...ENDPOINT_NAMES.filter((from) => /s3|azure/.test(from)).map((from) => ({
    from,
    to: 'sftp' as const,
  })),
];

describeWithPostgres('a mover that is killed in the middle of a file', () => {
  const takeover = useTakeover();

  async function savedBytes(transferId: string): Promise<number> {
    const [row] = await takeover.installation.sql<{ bytes: number | null }[]>`
      select (resume_record->'destination'->>'bytes')::int as bytes
        from work.transfer_jobs where transfer_id = ${transferId}`;
    return row?.bytes ?? 0;
  }

  for (const { from, to } of PAIRS) {
    const reason = whyNotAll([from, to]);
    const title = `another one goes on with what is at the destination: ${from} to ${to}`;
    test.skipIf(reason)(reason ? `${title} (skipped: ${reason})` : title, async () => {
      const [source, destination] = await Promise.all([takeover.start(from), takeover.start(to)]);
      await source.put('file', randomBytes(SIZE));
      const sha256 = await sha256At(source, 'file');
      // The whole file takes up to 20 s, so that it is not there before the test sees a part of
      // it, also on a busy machine.
      source.proxy.throttle(2 * MiB);
      const first = await takeover.startMover();
      const id = await submit(takeover.installation, uriOf(from, 'file'), uriOf(to, 'folder/'));
      await until(
        'some of it is safe at the destination',
        async () => (await savedBytes(id)) >= 8 * MiB,
        60,
      );
      await first.kill();
      await until('its connections are gone', () => {
        for (const { proxy } of [source, destination]) proxy.cut();
        return source.proxy.connections + destination.proxy.connections === 0;
      });
      const kept = await savedBytes(id);
      const before = { read: source.proxy.forwarded.down, sent: destination.proxy.forwarded.up };

      source.proxy.throttle(Number.POSITIVE_INFINITY);
      const [second] = await Promise.all([
        takeover.startMover(),
        expireLeases(takeover.installation),
      ]);
      const done = await untilStatus(takeover.installation, id, ['completed', 'failed'], 60);
      expect(destination.proxy.forwarded.up - before.sent).toBeLessThan(SIZE - kept + OVERHEAD);
      // The successor has no SHA-256 of the delivered part, so it reads the source from the start.
      expect(source.proxy.forwarded.down - before.read).toBeLessThan(SIZE + OVERHEAD);
      expect(done).toMatchObject({
        status: 'completed',
        checksum_sha256: sha256,
        verification: { destination_checksum: ENDPOINT_KINDS[to].compares.parts },
      });
      await takeover.expectArrived(id, destination, sha256);
      takeover.keep(second);
    });
  }
});
