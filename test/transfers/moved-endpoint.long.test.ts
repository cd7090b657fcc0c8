import { expect, test, vi } from 'vitest';
import { ENDPOINT_KINDS, sha256At, type TestEndpoint } from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { configureEndpoint, untilStatus } from '../support/service/installation.ts';
import { until, untilCleanedUp } from '../support/service/transfers.ts';
import { describeFaulty, oneSide, useSurroundings } from './one-side.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 200_000 });

const MiB = 1 << 20;
/** Five chunks. Four are sent side by side at most, so all of it cannot be on its way. */
const SIZE = 40 * MiB;

describeWithPostgres('an endpoint that gets another place', () => {
  const surroundings = useSurroundings();

  describeFaulty(surroundings, (faulty) => {
    /** Moves a file until it is half at the former place, then gives the endpoint a new one. */
    async function moved(file: string) {
      const { installation } = surroundings;
      const side = oneSide(surroundings, faulty, 'destination');
      await configureEndpoint(installation, { ...faulty.request, name: faulty.name });
      await side.create(file, SIZE);
      faulty.proxy.throttle(8 * MiB);
      const before = faulty.proxy.forwarded.up;
      const id = await side.beginOf(file);
      await until('half is sent', () => faulty.proxy.forwarded.up - before > SIZE / 2);
      faulty.proxy.throttle(MiB);
      const place: TestEndpoint = await ENDPOINT_KINDS[faulty.name].start();
      await configureEndpoint(installation, { ...place.request, name: faulty.name });
      return { id, place, name: `${file}/${file}` };
    }

    test('keeps the attempt at the former one, and later attempts begin at the new one', async () => {
      const { installation, other } = surroundings;
      for (const [file, breaks] of [
        [`stays-${faulty.name}`, false],
        [`goes-${faulty.name}`, true],
      ] as const) {
        const { id, place, name } = await moved(file);
        try {
          faulty.proxy.throttle(Number.POSITIVE_INFINITY);
          if (breaks) {
            await faulty.proxy.refuse(true);
            faulty.proxy.cut();
          }
          const done = await untilStatus(installation, id, ['completed', 'failed'], 60);
          const sha256 = await sha256At(other, file);
          expect(done).toMatchObject({ status: 'completed', checksum_sha256: sha256 });
          await untilCleanedUp(installation, id);
          const { at, not } = breaks ? { at: place, not: faulty } : { at: faulty, not: place };
          expect(await sha256At(at, name)).toBe(sha256);
          expect(await at.names(file)).toEqual([name]);
          // An interrupted attempt may leave its part at the former place.
          expect(await not.read(name)).toBeNull();
        } finally {
          await faulty.proxy.refuse(false);
          await place.stop();
        }
      }
    });
  });
});
