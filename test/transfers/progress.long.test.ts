import { expect, test, vi } from 'vitest';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { until } from '../support/service/transfers.ts';
import { describeFaulty, oneSide, useSurroundings } from './one-side.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
/** Five chunks. Four are sent side by side at most, so all of it cannot be on its way. */
const SIZE = 40 * MiB;

describeWithPostgres('the progress of a transfer', () => {
  const surroundings = useSurroundings();

  describeFaulty(surroundings, (faulty) => {
    test('rises within a chunk, as the destination takes the bytes', async () => {
      const { proxy, create, beginOf, arrives } = oneSide(surroundings, faulty, 'destination');
      const { commands } = surroundings.installation;
      // All kinds share the server of the source.
      const file = `watched-${faulty.name}`;
      await create(file, SIZE);
      proxy.throttle(2 * MiB);
      const sentBefore = proxy.forwarded.up;
      const id = await beginOf(file);
      await until('some is sent', () => proxy.forwarded.up - sentBefore > 2 * MiB);
      // From here on, no chunk can be complete for a long time.
      proxy.throttle(MiB / 16);
      const seen = await until('it is seen', async () => {
        const progress = await commands.progressOf(id);
        return progress && progress.transferred_bytes > 0 ? progress : null;
      });
      expect(seen.size_bytes).toBe(SIZE);
      expect(seen.transferred_bytes).toBeLessThan(SIZE);
      proxy.throttle(Number.POSITIVE_INFINITY);
      await arrives(id, file);
    });
  });
});
