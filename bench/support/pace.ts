import type { ProjectionName } from '../../src/domain/projection-name.ts';
import type { Installation } from '../../src/installation.ts';
import { rebuildProjection } from '../../src/projections/rebuild/rebuild.ts';

export interface Pace {
  /** Total time. That of a rebuild includes the comparison with the live tables and the switch. */
  seconds: number;
  /** Events per second. */
  whole: number;
  firstTenth: number;
  lastTenth: number;
}

/**
 * Rebuilds a projection from a log of so many events. Vacuums the database first: autovacuum would
 * otherwise clean up after the round before during this one, as it never does in a service at rest.
 */
export async function rebuildPace(
  installation: Installation,
  projection: ProjectionName,
  events: number,
): Promise<Pace> {
  const deps = { ...installation, sql: installation.patient };
  await deps.sql`vacuum (analyze)`;
  const meter = createMeter(events);
  await rebuildProjection(deps, projection, (progress) => meter.read(progress.events));
  return meter.pace();
}

/** Measures the pace over the whole log, its first tenth and its last tenth. */
export function createMeter(events: number) {
  const started = performance.now();
  const marks: { events: number; at: number }[] = [{ events: 0, at: started }];
  const since = (from: number, to: number) => {
    const [a, b] = [from, to].map(
      (share) => marks.find((mark) => mark.events >= events * share)!,
    ) as [(typeof marks)[0], (typeof marks)[0]];
    return (b.events - a.events) / ((b.at - a.at) / 1_000);
  };
  const count = () => marks.at(-1)!.events;
  return {
    count,
    /** The few events of the installation itself, beside the histories, do not count. */
    read: (total: number) =>
      void marks.push({ events: Math.min(total, events), at: performance.now() }),
    pace(): Pace {
      if (count() !== events) throw new Error(`${count()} of ${events} events were read`);
      const seconds = (performance.now() - started) / 1_000;
      return { seconds, whole: since(0, 1), firstTenth: since(0, 0.1), lastTenth: since(0.9, 1) };
    },
  };
}
