import { expect, test } from 'vitest';
import type { Side } from '../../src/adapters/files/port.ts';
import type { Direction } from '../support/network/tcp-proxy.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { until } from '../support/service/transfers.ts';
import { describeFaulty, oneSide, useSurroundings } from './one-side.ts';

const KiB = 1 << 10;
const MiB = 1 << 20;
const CUTS = 32;

const SIDES: readonly Side[] = ['source', 'destination'];
const WAYS = SIDES.flatMap((side) =>
  (['up', 'down'] satisfies Direction[]).map((direction) => ({ side, direction })),
);

describeWithPostgres('faults at any moment of a transfer', () => {
  const surroundings = useSurroundings();

  describeFaulty(surroundings, (faulty) => {
    test.each(WAYS)(
      'a file arrives after a cut at each thirty-second of the $direction traffic at the ' +
        '$side, from the greeting to the commit',
      { concurrent: false },
      async ({ side, direction }) => {
        const moves = oneSide(surroundings, faulty, side);
        const move = async (file: string, cutAfter: number | null) => {
          await moves.create(file, 20 * KiB);
          await moves.startAfresh();
          if (cutAfter !== null) moves.proxy.cutAfter(Math.max(1, Math.floor(cutAfter)), direction);
          // A file that it may not overwrite may be its own, if the commit got no answer.
          const id = await moves.beginOf(file, { overwrite: false });
          await moves.arrives(id, file);
          for (const { code } of await moves.retries(id)) expect(code).toBe('connection_failed');
        };
        const before = moves.proxy.forwarded[direction];
        await move(`${faulty.name} ${side} ${direction} uncut`, null);
        const all = moves.proxy.forwarded[direction] - before;
        for (let cut = 0; cut < CUTS; cut++)
          await move(`${faulty.name} ${side} ${direction} ${cut}`, (all * cut) / CUTS);
        // The last transfer may have needed fewer bytes than the first.
        moves.proxy.cutAfter(Number.POSITIVE_INFINITY, direction);
      },
    );

    test.each(SIDES)(
      'a %s that goes silent is tried again, and a retry completes the file',
      { concurrent: false },
      async (side) => {
        const moves = oneSide(surroundings, faulty, side);
        const file = `${faulty.name} ${side} silent`;
        await moves.create(file, 48 * MiB);
        const { proxy } = moves;
        const sum = () => proxy.forwarded.up + proxy.forwarded.down;
        const before = sum();
        proxy.throttle(8 * MiB);
        const id = await moves.beginOf(file);
        await until('it moves', () => sum() - before > 8 * MiB, 120);
        proxy.stall(true);
        // Azure takes smaller chunks, so they are tried: a minute each.
        await until('it is tried again', async () => (await moves.retries(id)).length > 0, 400);
        proxy.stall(false);
        proxy.throttle(Number.POSITIVE_INFINITY);
        await moves.arrives(id, file);
        const [first] = await moves.retries(id);
        // These two greet each new connection. One that is not greeted fails the attempt.
        expect(first).toMatchObject(
          faulty.name === 'sftp' || faulty.name === 'ftps'
            ? { code: 'timeout', phase: `${side}_connect`, retryable: true }
            : { code: 'stalled', phase: side === 'source' ? 'read' : 'write', retryable: true },
        );
      },
    );
  });
});
