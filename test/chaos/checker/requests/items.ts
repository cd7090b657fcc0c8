import type { BatchFile, VersionRecord } from '../../evidence.ts';
import type { Context } from '../context.ts';
import { type CreateBatchRecord, faultsBetween } from '../evidence-files.ts';
import { keyOf, type Places } from '../files/places.ts';
import type { BatchItem } from '../log/batches.ts';
import type { Fields } from '../log/event.ts';
import type { Operation } from './operations.ts';

/**
 * Finds what each transfer of a batch was asked to move: by the request that created the batch, by
 * the transfer that it repeats, or by what the writer put into the folder of a flow. Checks that a
 * batch has exactly the files that its request asked for.
 */
export async function linkItems(
  { evidence, log, sql, report }: Context,
  places: Places,
  known: Map<string, Operation>,
): Promise<Map<string, Operation>> {
  const links = new Map<string, Operation>();
  const versions = Map.groupBy(evidence.versions, ({ endpoint, path }) =>
    keyOf(places.ofPath(endpoint, path)),
  );
  const requests = await requestsByBatch();
  for (const [id, { state }] of log.batches) {
    const source = state.source as Fields;
    const items = log.batchItems.get(id) ?? [];
    if (source.type === 'flow') linkVersions(items);
    else if (source.type === 'retry') linkRepeated(items);
    else linkRequested(id, items, source.type === 'folder');
  }
  return links;

  /** By batch: a request that created it, or that may have. */
  async function requestsByBatch() {
    const rows = await sql<{ key: string; id: string }[]>`
      select account_id || ' ' || key as key, reserved ->> 'batchId' as id from work.idempotency_keys
       where route like 'POST /v1/batches%' and reserved ? 'batchId'`;
    const reserved = new Map(rows.map(({ key, id }) => [key, id]));
    const found = new Map<string, CreateBatchRecord>();
    for (const request of evidence.requests) {
      if (request.kind !== 'create_batch' && request.kind !== 'retry_batch') continue;
      const { idempotencyKey: key, batchId } = request;
      const id = reserved.get(`${request.account} ${key}`);
      const wrong = (detail: string) => report.finding('transfers.once', `key ${key}`, detail);
      if (batchId !== null && batchId !== id)
        wrong(`it reserves ${id}, and an answer names ${batchId}`);
      if (batchId !== null && !log.batches.has(batchId))
        wrong(`it was answered with ${batchId}, and the log does not hold that`);
      if (id !== undefined && request.kind === 'create_batch') found.set(id, request);
    }
    return found;
  }

  function linkRequested(batchId: string, items: BatchItem[], ofFolder: boolean): void {
    const wrong = (detail: string) => report.finding('transfers.items', batchId, detail);
    const request = requests.get(batchId);
    if (!request) {
      wrong('no request led to it');
      return;
    }
    const left = new Map(request.files.map((file) => [sourceOf(file), file]));
    const { state } = log.batches.get(batchId) as { state: Fields };
    for (const [i, { item, transferId }] of items.entries()) {
      report.count('batch_items');
      const key = keyOf(places.ofUri(String(item.source_uri), null));
      const file = ofFolder ? left.get(key) : request.files[i];
      if (item.error !== undefined) {
        if (faultsBetween(evidence.faults, request.sentAt, String(state.ended_at)).length === 0)
          wrong(`its item ${i} was rejected without a fault: ${JSON.stringify(item.error)}`);
      } else if (!file || sourceOf(file) !== key)
        wrong(`its item ${i} is ${key}: not as requested, or once more`);
      else if (transferId !== null) links.set(transferId, operationOf(file, transferId));
      left.delete(key);
    }
    const isWhole = state.cancelled_at === null && items.every(({ item }) => !item.error);
    if (ofFolder ? isWhole && left.size > 0 : items.length !== request.files.length)
      wrong(`it has ${items.length} items, and the request ${request.files.length} files`);
  }

  function linkRepeated(items: BatchItem[]): void {
    for (const { item, transferId } of items) {
      const original = links.get(String(item.retry_of)) ?? known.get(String(item.retry_of));
      if (original && transferId !== null) links.set(transferId, original);
    }
  }

  function linkVersions(items: BatchItem[]): void {
    for (const { item, transferId } of items) {
      const state = transferId === null ? undefined : log.transfers.get(transferId)?.state;
      if (!state || transferId === null) continue;
      const { facts } = state;
      const source = places.ofUri(facts.source, facts.source_endpoint_id);
      const written = versions.get(keyOf(source)) ?? [];
      const listed = Number(String(item.version).split(' ')[0]);
      // A store may replace an object after the listing, and shows only whole ones.
      const size = isFolder(source.endpoint) ? listed : facts.size_bytes;
      const file = written.find((one) => one.size === size) ?? NOT_WRITTEN;
      const destination = places.ofUri(facts.destination, facts.destination_endpoint_id);
      // A version that was rewritten meanwhile is not there any more.
      const mayFailWith =
        written.length > 1 ? ['source_replaced', 'source_changed', 'source_not_found'] : [];
      links.set(transferId, operationOf({ source, destination, file }, transferId, mayFailWith));
    }
  }

  function isFolder(endpoint: string): boolean {
    return evidence.run.endpoints.some(({ name, kind }) => name === endpoint && kind === 'folder');
  }

  function sourceOf({ source }: BatchFile): string {
    return keyOf(places.ofPath(source.endpoint, source.path));
  }
}

const NOT_WRITTEN = { size: -1, sha256: 'no version of this size' } as VersionRecord;

function operationOf(
  { source, destination, file }: BatchFile,
  transferId: string,
  mayFailWith: string[] = [],
): Operation {
  const asked = { sentAt: '', answeredAt: null, status: 201, account: null, names: [] };
  return {
    key: null,
    requests: [
      {
        kind: 'create',
        ...asked,
        replayed: false,
        idempotencyKey: null,
        source,
        destination,
        file: file && { size: file.size, sha256: file.sha256 },
        mayFailWith,
        transferId,
      },
    ],
    accepted: new Set([transferId]),
    unanswered: false,
  };
}
