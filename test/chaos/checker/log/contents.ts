import type { Report } from '../report.ts';
import { auditRow } from '../shown/audit.ts';
import { isDone } from './after.ts';
import { type BatchItem, checkBatches, noteItems } from './batches.ts';
import { createChainCheck } from './chain.ts';
import {
  type CatalogKind,
  type Fields,
  type Kind,
  type LoggedEvent,
  NAMES,
  streamOf,
} from './event.ts';
import { checkFlows, checkRun, noteTaken } from './flows.ts';
import { type CatalogState, foldCatalog } from './fold-catalog.ts';
import { foldTransfer, isEnded, type TransferState } from './fold-transfer.ts';
import { retryProblem } from './retries.ts';
import { isTold, payloadDigest, subscribes } from './told.ts';
import { createTreeCheck } from './tree.ts';

/** The state of a stream, folded from all its events. */
export interface Folded<State> {
  state: State;
  revision: number;
  position: bigint;
}

/** A transfer, with facts that its states alone do not show. */
export interface TransferStory extends Folded<TransferState> {
  /** Start of the last attempt, and time of the last event, in ISO 8601. */
  startedAt: string | null;
  lastAt: string;
  /** Where it ended. The steps after it follow. */
  ended: { at: string; position: bigint } | null;
  /** Attempts whose mover was lost. */
  lost: number;
}

/** One event, with the fields that later checks need. */
export interface EventNote {
  type: string;
  transferId: string | null;
  account: unknown;
  occurredAt: string;
  /** Hash of position, stream, revision and the event: an export must repeat it. */
  hash: string;
  /** Of the payload that webhooks get; null for types without one. */
  payload: string | null;
}

export interface LogContents {
  transfers: Map<string, TransferStory>;
  batches: Map<string, Folded<CatalogState>>;
  flows: Map<string, Folded<CatalogState>>;
  /** The items of each batch, in order. */
  batchItems: Map<string, BatchItem[]>;
  /** The data of `batch.completed`, by batch. */
  batchEnds: Map<string, Fields>;
  endpoints: Map<string, Folded<CatalogState>>;
  keys: Map<string, Folded<CatalogState>>;
  webhooks: Map<string, Folded<CatalogState>>;
  events: Map<string, EventNote>;
  /** Rows of the audit log. By event id. */
  audited: Map<string, Fields>;
  /**
   * Event ids that each webhook must get, because it was live at their place in the log. By
   * webhook.
   */
  owed: Map<string, Set<string>>;
  /**
   * Further event ids that each webhook subscribes to and that only a replay may send. By webhook.
   * A replay also sends events from before the registration.
   */
  replayable: Map<string, Set<string>>;
  /** Last position of each kind of stream. */
  heads: Map<Kind, bigint>;
  /** Last position. Later events record the accesses of this check. */
  end: bigint;
}

/** The events of the streams `access-acs_...`. They change no state. */
const ACCESSES = [
  'access.exported',
  'access.history_read',
  'access.receipt_read',
  'access.sign_in_failed',
];

/** Reads the whole log: checks each stream, and folds what the other checks compare. */
export async function readContents(
  events: AsyncIterable<LoggedEvent>,
  report: Report,
): Promise<LogContents> {
  const chain = createChainCheck(report);
  const tree = createTreeCheck(report);
  const catalog = {
    batch: new Map(),
    flow: new Map(),
    endpoint: new Map(),
    key: new Map(),
    webhook: new Map(),
  } as Record<CatalogKind, Map<string, Folded<CatalogState>>>;
  const contents: LogContents = {
    transfers: new Map(),
    batches: catalog.batch,
    flows: catalog.flow,
    batchItems: new Map(),
    batchEnds: new Map(),
    endpoints: catalog.endpoint,
    keys: catalog.key,
    webhooks: catalog.webhook,
    events: new Map(),
    audited: new Map(),
    owed: new Map(),
    replayable: new Map(),
    heads: new Map(),
    end: 0n,
  };

  const takenByFlows = new Set<string>();
  const earlier: { event: LoggedEvent; states: Parameters<typeof subscribes>[2] }[] = [];

  for await (const event of events) {
    const hash = chain(event);
    contents.end = event.position;
    tree(event);
    const stream = streamOf(event.stream);
    if (stream === null) {
      const first = event.stream === 'log' && event.revision === 0 && event.type === 'log.opened';
      const claim = event.stream.startsWith(NAMES) && event.type === 'endpoint_name.claimed';
      if (!first && !claim)
        report.finding(
          'log.order',
          `${event.stream} revision ${event.revision}`,
          `no ${event.type} is expected in this stream`,
        );
      note(event, hash, null, null);
      continue;
    }
    contents.heads.set(stream.kind, event.position);
    const row = auditRow(event);
    if (row) contents.audited.set(event.id, row);
    const wrong = (problem: string) =>
      report.finding(
        'log.order',
        `${event.stream} revision ${event.revision} (${event.id})`,
        problem,
      );
    if (stream.kind === 'transfer') {
      foldIntoTransfers(contents.transfers, stream.id, event, wrong);
      checkRetry(event);
      note(event, hash, stream.id, contents.transfers.get(stream.id)?.state ?? null);
    } else if (stream.kind === 'access') {
      if (!ACCESSES.includes(event.type)) wrong(`${event.type} is no access`);
      note(event, hash, null, null);
    } else if (stream.kind === 'log') {
      note(event, hash, null, null);
    } else {
      if (stream.kind === 'flow')
        checkRun(event, catalog.flow.get(stream.id)?.state, contents, wrong);
      foldIntoCatalog(catalog[stream.kind], stream.kind, stream.id, event, wrong);
      if (stream.kind === 'webhook') noteEarlier(stream.id);
      if (event.type === 'batch.listed') {
        noteItems(contents.batchItems, stream.id, event.data, report);
        noteTaken(takenByFlows, catalog.batch.get(stream.id)?.state, event.data, report);
      }
      if (event.type === 'batch.completed') contents.batchEnds.set(stream.id, event.data);
      note(event, hash, null, null);
    }
  }
  reportUnended(contents.transfers, report);
  reportSharedNames(contents.endpoints, report);
  checkBatches(contents, report);
  checkFlows(contents, report);
  return contents;

  /** Checks a new transfer that repeats another one against that one. */
  function checkRetry({ type, data }: LoggedEvent): void {
    if (type !== 'transfer.created' || data.retry_of === null) return;
    report.count('retries');
    const original = contents.transfers.get(String(data.retry_of))?.state;
    const problem = retryProblem(data, original ?? null);
    if (problem !== null) report.finding('transfers.retry', String(data.transfer_id), problem);
  }

  function note(
    event: LoggedEvent,
    hash: string,
    transferId: string | null,
    transfer: TransferState | null,
  ): void {
    const { id, type, metadata } = event;
    const endpoint = type.startsWith('endpoint.')
      ? (catalog.endpoint.get(event.stream.slice('endpoint-'.length))?.state ?? null)
      : null;
    const payload = isTold(type) ? payloadDigest(event, { transfer, endpoint }) : null;
    const place = `${event.position} ${event.stream} ${event.revision} ${hash}`;
    contents.events.set(id, {
      type,
      transferId,
      account: metadata.account_id,
      occurredAt: metadata.occurred_at,
      hash: place,
      payload,
    });
    if (payload === null) return;
    report.count('events_for_webhooks');
    earlier.push({ event, states: { transfer, endpoint } });
    for (const [webhookId, { state }] of catalog.webhook) {
      const live = state.status === 'active' && state.enabled === true;
      if (subscribes(state, event, { transfer, endpoint }))
        add(live ? contents.owed : contents.replayable, webhookId, id);
    }
  }

  function noteEarlier(webhookId: string): void {
    const webhook = catalog.webhook.get(webhookId)?.state;
    if (webhook?.status !== 'active') return;
    for (const { event, states } of earlier)
      if (subscribes(webhook, event, states)) add(contents.replayable, webhookId, event.id);
  }
}

function add(sets: Map<string, Set<string>>, key: string, item: string): void {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set.add(item));
}

function foldIntoTransfers(
  stories: Map<string, TransferStory>,
  id: string,
  event: LoggedEvent,
  wrong: (problem: string) => void,
): void {
  const before = stories.get(id) ?? null;
  const step = foldTransfer(before?.state ?? null, event);
  if ('problem' in step) {
    wrong(step.problem);
    if (before) stories.set(id, { ...before, revision: event.revision, position: event.position });
    return;
  }
  const { type, data, revision, position, metadata } = event;
  stories.set(id, {
    state: step.state,
    revision,
    position,
    startedAt: type === 'transfer.in_progress' ? metadata.occurred_at : (before?.startedAt ?? null),
    lastAt: metadata.occurred_at,
    ended:
      before?.ended ?? (isEnded(step.state.status) ? { at: metadata.occurred_at, position } : null),
    lost: (before?.lost ?? 0) + (data.reason === 'mover_lost' ? 1 : 0),
  });
}

function foldIntoCatalog(
  entries: Map<string, Folded<CatalogState>>,
  kind: CatalogKind,
  id: string,
  event: LoggedEvent,
  wrong: (problem: string) => void,
): void {
  const before = entries.get(id) ?? null;
  const step = foldCatalog(kind, before?.state ?? null, event);
  const { revision, position } = event;
  if ('problem' in step) {
    wrong(step.problem);
    if (before) entries.set(id, { ...before, revision, position });
    return;
  }
  entries.set(id, { state: step.state, revision, position });
}

function reportUnended(transfers: Map<string, TransferStory>, report: Report): void {
  report.count('transfers', transfers.size);
  for (const [id, { state, revision }] of transfers) {
    if (!isEnded(state.status))
      report.finding(
        'transfers.end',
        id,
        `it is ${state.status} at revision ${revision}: it has not ended`,
      );
    else if (!isDone(state))
      report.finding('transfers.after', id, 'a step after it has no outcome');
  }
}

/** Checks that no two configured endpoints have the same name. */
function reportSharedNames(endpoints: LogContents['endpoints'], report: Report): void {
  const holders = new Map<unknown, string>();
  for (const [id, { state }] of endpoints) {
    if (state.status !== 'configured') continue;
    const other = holders.get(state.name);
    if (other !== undefined)
      report.finding('log.names', id, `its name ${state.name} is that of ${other} too`);
    holders.set(state.name, id);
  }
}
