import type { Context } from '../context.ts';
import { faultsBetween } from '../evidence-files.ts';
import { keyOf, type Places } from '../files/places.ts';
import type { TransferStory } from '../log/contents.ts';
import type { Fields } from '../log/event.ts';

/**
 * Checks that flows have copied the last version of each file that a writer put into their folders,
 * and nothing after it. A fault may explain why a file failed.
 */
export function checkVersions({ evidence, log, report }: Context, places: Places): void {
  const ofFlows = [...log.transfers.values()].filter(({ state }) => {
    const batch = log.batches.get(String(state.facts.batch_id))?.state;
    return (batch?.source as Fields | undefined)?.type === 'flow';
  });
  const copies = Map.groupBy(ofFlows, ({ state: { facts } }) =>
    keyOf(places.ofUri(facts.source, facts.source_endpoint_id)),
  );
  const written = Map.groupBy(evidence.versions, ({ endpoint, path }) =>
    keyOf(places.ofPath(endpoint, path)),
  );
  for (const [key, versions] of written) {
    report.count('flow_versions', versions.length);
    const [last, own] = [versions.at(-1), copies.get(key) ?? []];
    const final = own
      .filter(({ ended, state }) => ended && state.status === 'completed')
      .sort((a, b) => (positionOf(a) < positionOf(b) ? -1 : 1))
      .at(-1)?.state;
    if (!last || final?.checksum_sha256 === last.sha256) continue;
    const failed = own.some(
      ({ state, lastAt }) =>
        state.status === 'failed' && faultsBetween(evidence.faults, last.at, lastAt).length > 0,
    );
    report.count('flow_versions_failed', Number(failed));
    if (failed) continue;
    const copied = final
      ? `${final.facts.size_bytes} bytes were copied last`
      : 'nothing was copied';
    report.finding(
      'transfers.versions',
      key,
      `its last version has ${last.size} bytes, and ${copied}`,
    );
  }
}

function positionOf({ ended, position }: TransferStory): bigint {
  return ended?.position ?? position;
}
