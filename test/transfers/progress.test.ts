import { expect, test, vi } from 'vitest';
import { describeWithPostgres } from '../support/postgres.ts';
import { until } from '../support/transfers.ts';
import { describeFaulty, oneSide, useSurroundings } from './one-side.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
/** Chunks are sent side by side, four at most. What is on its way cannot be more. */
const UNDER_WAY = 32 * MiB;
const SIZE = UNDER_WAY + 8 * MiB;

describeWithPostgres('the progress of a transfer', () => {
  const surroundings = useSurroundings();

  describeFaulty(surroundings, (faulty) => {
    test('rises within a chunk, as the destination takes the bytes', async () => {
      const { proxy, create, beginOf, arrives } = oneSide(surroundings, faulty, 'destination');
      const { commands } = surroundings.installation;
      await create('watched', SIZE);
      proxy.throttle(2 * MiB);
      const sentBefore = proxy.forwarded.up;
      const id = await beginOf('watched');
      const progress = async () => (await commands.progressOf(id))?.transferred_bytes ?? 0;

      const seen: number[] = [];
      for (const sent of [2 * MiB, UNDER_WAY + MiB]) {
        // Held, so that it cannot complete before everything stands still.
        const letGo = await proxy.holdWhen(() => proxy.forwarded.up - sentBefore > sent, 'up');
        proxy.stall(true);
        letGo();
        const before = seen.at(-1) ?? 0;
        await until('it is seen', async () => (await progress()) > before);
        seen.push(await progress());
        proxy.throttle(16 * MiB);
        proxy.stall(false);
      }
      expect(seen[0]).toBeLessThan(SIZE);
      proxy.throttle(Number.POSITIVE_INFINITY);
      await arrives(id, 'watched');
    });
  });
});
