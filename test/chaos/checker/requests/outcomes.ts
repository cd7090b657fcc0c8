import type { Context } from '../context.ts';
import {
  type CancelRecord,
  type CreateRecord,
  faultsBetween,
  isUnanswered,
} from '../evidence-files.ts';
import type { Places } from '../files/places.ts';
import type { TransferStory } from '../log/contents.ts';
import { type Operation, routeOf } from './operations.ts';

/** Codes that a fault of the run can cause: failing networks, servers and processes. */
const BY_FAULT = [
  'connection_failed',
  'timeout',
  'stalled',
  'internal_error',
  'auth_failed',
  'tls_error',
  'host_key_mismatch',
  'source_changed',
  'size_mismatch',
  'permission_denied',
  'disk_full',
  'destination_not_found',
  'endpoint_removed',
];

/** Checks that each transfer ended as its request, the cancels and the faults of the run allow. */
export function checkOutcomes(
  { evidence, log, report }: Context,
  links: Map<string, Operation>,
  places: Places,
): void {
  const cancels = cancelsByTransfer(
    evidence.requests.filter((request) => request.kind === 'cancel') as CancelRecord[],
  );
  const aborted = evidence.requests.some(
    (request) => request.kind === 'other' && /abort/i.test(request.what),
  );
  const overwriting = overwritePolicies(log.endpoints);
  for (const [id, operation] of links) {
    const story = log.transfers.get(id);
    if (!story) continue;
    const problem = problemOf(id, story, operation);
    if (problem !== null) report.finding('transfers.outcome', id, problem);
    report.count('outcomes');
  }
  for (const [id, records] of cancels) {
    const problem = cancelProblem(log.transfers.get(id), records);
    if (problem !== null) report.finding('transfers.cancel', id, problem);
    report.count('cancels', records.length);
  }
  for (const request of evidence.requests) {
    if (request.kind !== 'cancel_batch' || request.status !== 200) continue;
    report.count('batch_cancels');
    if ((log.batches.get(request.batchId)?.state.cancelled_at ?? null) === null)
      report.finding(
        'transfers.cancel',
        request.batchId,
        'its cancel was answered with 200, and the log has none',
      );
  }
  report.expectSome('transfers.outcome', 'outcomes', log.transfers.size);

  function problemOf(id: string, story: TransferStory, operation: Operation): string | null {
    const { state } = story;
    const asked = requestOf(story, operation, places);
    if (state.status === 'completed') {
      if (asked.file === null) return 'it completed, and there was no file at its source';
      const { size_bytes } = state.facts;
      const { size, sha256 } = asked.file;
      if (size_bytes === size && state.checksum_sha256 === sha256) return null;
      return (
        `it completed with ${size_bytes} bytes, ${state.checksum_sha256}; the source had ` +
        `${size} bytes, ${sha256}`
      );
    }
    if (state.status === 'cancelled') {
      const asked = [...(cancels.get(id) ?? []), ...cancelsOfBatch(state.facts.batch_id)].some(
        (record) => record.status === 200 || isUnanswered(record),
      );
      return asked ? null : 'it was cancelled, and no request asked for that';
    }
    return state.status === 'failed' ? failureProblem(story, asked) : null;
  }

  function cancelsOfBatch(batchId: string | undefined) {
    return evidence.requests.filter(
      (request) => request.kind === 'cancel_batch' && request.batchId === batchId,
    );
  }

  function failureProblem(
    { state, lastAt }: TransferStory,
    { file, mayFailWith = [] }: CreateRecord,
  ): string | null {
    const { facts } = state;
    const code = facts.error?.code ?? 'none';
    if (mayFailWith.includes(code)) return null;
    if (file === null && (code === 'source_not_found' || code === 'source_endpoint_not_configured'))
      return null;
    if (code === 'aborted_by_operator')
      return aborted ? null : 'it was aborted, and no request asked for that';
    if (code === 'destination_exists') {
      return overwriting.get(facts.destination_endpoint_id) === false
        ? null
        : 'it failed with destination_exists, and may overwrite';
    }
    const faults = faultsBetween(evidence.faults, facts.created_at, lastAt);
    if (BY_FAULT.includes(code) && faults.length > 0) return null;
    const source = file === null ? 'without a file at its source' : 'with its file at the source';
    return (
      `it failed with ${code} (${facts.error?.message}), ${source} and ${faults.length} faults ` +
      'in its time'
    );
  }
}

/**
 * Returns the request that a transfer came from: of several with one key, the one with its source
 * and destination.
 */
function requestOf(
  { state }: TransferStory,
  { requests }: Operation,
  places: Places,
): CreateRecord {
  const { source, destination, source_endpoint_id, destination_endpoint_id } = state.facts;
  const from = places.ofUri(source, source_endpoint_id);
  const to = places.ofUri(destination, destination_endpoint_id);
  const route = routeOf({ source: from, destination: to }, places);
  return (
    requests.find((request) => routeOf(request, places) === route) ?? (requests[0] as CreateRecord)
  );
}

/** Whether each endpoint replaces files. Leaves out endpoints that were changed during the run. */
function overwritePolicies(endpoints: Context['log']['endpoints']): Map<string, unknown> {
  return new Map([...endpoints].map(([id, { state }]) => [id, state.overwrite]));
}

function cancelsByTransfer(records: CancelRecord[]): Map<string, CancelRecord[]> {
  return Map.groupBy(records, ({ transferId }) => transferId);
}

function cancelProblem(story: TransferStory | undefined, records: CancelRecord[]): string | null {
  const done = records.filter(({ status }) => status === 200);
  if (story === undefined)
    return done.length > 0
      ? 'a cancel was answered with 200, and the log does not hold the transfer'
      : null;
  const { status } = story.state;
  if (done.length > 0 && status !== 'cancelled')
    return `a cancel was answered with 200, and the transfer is ${status}`;
  if (done.length > 1) return `${done.length} cancels were answered with 200`;
  return records.some((record) => record.status === 404)
    ? 'a cancel was answered with 404, and the log holds the transfer'
    : null;
}
