import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  ENDPOINT_NAMES,
  type EndpointName,
  sha256At,
  uriOf,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import type { TcpProxy } from '../support/network/tcp-proxy.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { submit, type TestInstallation, untilStatus } from '../support/service/installation.ts';
import { expireLeases, storyOf, until, untilCleanedUp } from '../support/service/transfers.ts';
import { MiB, useTakeover } from './takeover.ts';

/** Of several chunks of every protocol. */
const LONG = 24 * MiB;

/**
 * Resolves when the mover is to be frozen, with what lets go of the bytes that are held back until
 * it wakes up.
 */
type Strike = (proxy: TcpProxy, installation: TestInstallation) => Promise<() => void>;

const inTheMiddle: Strike = async (proxy) => {
  const before = proxy.forwarded.up;
  await until('some of it is on its way', () => proxy.forwarded.up - before > LONG / 3, 60);
  return () => {};
};
/** What is on its way then arrives when it wakes up. */
const atTheCommit: Strike = (proxy, { sql }) =>
  proxy.holdWhen(
    async () =>
      (await sql`select from work.transfer_jobs where resume_record->>'committing' is not null`)
        .length > 0,
    'up',
  );

/** Title, bytes, moment of the freeze, and whether the mover wakes up during the next attempt. */
export type Freeze = [title: string, size: number, strike: Strike, wakesUpEarly: boolean];

export const FREEZES: readonly Freeze[] = [
  ['in the middle, it wakes up while another one writes', LONG, inTheMiddle, true],
  ['in the middle, it wakes up when another one has finished', LONG, inTheMiddle, false],
  [
    'at the commit of a long file, it wakes up when another one has finished',
    LONG,
    atTheCommit,
    false,
  ],
  [
    'at the commit of a small file, it wakes up when another one has finished',
    5_000,
    atTheCommit,
    false,
  ],
];

/** Freezes a mover in these ways, towards every kind of endpoint. */
export function describeFrozenMovers(freezesTo: (to: EndpointName) => readonly Freeze[]): void {
  describeWithPostgres('a mover that is frozen while another one takes over', () =>
    tests(freezesTo),
  );
}

function tests(freezesTo: (to: EndpointName) => readonly Freeze[]): void {
  const takeover = useTakeover();

  for (const to of ENDPOINT_NAMES) {
    const from = to === 'sftp' ? 'ftps' : 'sftp';
    const reason = whyNotAll([from, to]);
    test.skipIf(reason).each([...freezesTo(to)])(
      reason ? `frozen %s: ${to} (skipped: ${reason})` : `frozen %s: ${to}`,
      { timeout: 90_000 },
      async (_, size, strike, wakesUpEarly) => {
        const [source, destination] = await Promise.all([takeover.start(from), takeover.start(to)]);
        await source.put('file', randomBytes(size));
        const sha256 = await sha256At(source, 'file');
        const { proxy } = destination;
        const frozen = await takeover.startMover();
        proxy.throttle(16 * MiB);
        const struck = strike(proxy, takeover.installation);
        const id = await submit(takeover.installation, uriOf(from, 'file'), uriOf(to, 'folder/'));
        const letGo = await struck;
        frozen.signal('SIGSTOP');
        expect((await storyOf(takeover.installation, id)).at(-1)).toBe('in_progress');
        proxy.throttle(wakesUpEarly ? 24 * MiB : Number.POSITIVE_INFINITY);
        await expireLeases(takeover.installation);
        const successor = await takeover.startMover();
        if (wakesUpEarly)
          await until(
            'the other one has begun',
            async () => (await storyOf(takeover.installation, id)).length === 5,
          );
        else await untilStatus(takeover.installation, id, ['completed', 'failed'], 60);
        frozen.signal('SIGCONT');
        letGo();
        await untilStatus(takeover.installation, id, ['completed', 'failed'], 60);
        await takeover.expectArrived(id, destination, sha256);

        // It is fit for work again, and when it has gone nothing else has become of the first file.
        await successor.stop();
        await source.put('next-file', randomBytes(5_000));
        const next = await submit(
          takeover.installation,
          uriOf(from, 'next-file'),
          uriOf(to, 'next/'),
        );
        expect(
          await untilStatus(takeover.installation, next, ['completed', 'failed'], 60),
        ).toMatchObject({
          status: 'completed',
        });
        await untilCleanedUp(takeover.installation, id);
        expect(await frozen.stop()).toBe(0);
        await takeover.expectArrived(id, destination, sha256);
      },
    );
  }
}
