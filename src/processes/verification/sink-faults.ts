import type { Sql } from '../../adapters/postgres/connect.ts';
import { sinkStates } from '../proof/sink-table.ts';
import { hasLostCheckpoint, lossOf, type NamedSink } from '../proof/sinks.ts';
import { type Fault, nowhere } from './fault.ts';

/**
 * Yields the sinks that lost the last checkpoint that they took, and those in which the service
 * found a checkpoint that this log does not have. One that cannot be asked is none: it may be away.
 * Its URL may hold a secret, so its place in the settings names it.
 */
export async function* sinkFaults(sql: Sql, sinks: NamedSink[]): AsyncGenerator<Fault> {
  const states = await sinkStates(
    sql,
    sinks.map(({ url }) => url),
  );
  for (const [i, { sink }] of sinks.entries()) {
    const place = `place ${i + 1} of WAYBILL_CHECKPOINT_SINKS`;
    const { size = null, refuses = false, error = null } = states[i]?.state ?? {};
    if (refuses) yield nowhere('sink', `${place} contradicts the log: ${error}`);
    if (size !== null && (await hasLostCheckpoint(sink, size)))
      yield nowhere('sink', `${place} ${lossOf(size)}`);
  }
}
