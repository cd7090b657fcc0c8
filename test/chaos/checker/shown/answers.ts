import { differences, same, sha256 } from '../canonical.ts';
import type { Context } from '../context.ts';
import { shownAfter } from '../log/after.ts';
import type { TransferStory } from '../log/contents.ts';
import { type Fields, hashOf, type LoggedEvent } from '../log/event.ts';
import { STATUSES, type TransferState } from '../log/fold-transfer.ts';
import { type Api, openApi } from './api.ts';

const PAGE = 100;
const AT_ONCE = 4;
/** Details to request. Of more transfers, every n-th is checked. */
const DETAILS = 400;

interface Page {
  data: Fields[];
  pagination: Fields & { total: number };
}

/**
 * Checks that the answers of the API follow from the log: lists, counts, details, the catalog and
 * the export.
 */
export async function checkAnswers(context: Context): Promise<void> {
  const { apiUrl, adminKey, neighbourKey } = context.evidence.run;
  const api = openApi(apiUrl, adminKey);
  const account = accountOf(context, adminKey);
  const transfers = await checkTransfers(context, api, account);
  await checkCatalog(context, api, account);
  await checkExport(context, api, null);
  context.report.expectSome('api', 'api_list_items', transfers);
  context.report.expectSome('api', 'api_details', transfers);
  context.report.expectSome('api', 'api_events', context.log.events.size);
  if (neighbourKey === undefined) return;
  const other = openApi(apiUrl, neighbourKey);
  const neighbour = accountOf(context, neighbourKey);
  await checkTransfers(context, other, neighbour);
  await checkExport(context, other, neighbour);
}

/** Checks what an account sees of transfers. Returns how many it has. */
async function checkTransfers(context: Context, api: Api, account: string): Promise<number> {
  const transfers = [...context.log.transfers.values()]
    .filter(({ state }) => state.facts.account_id === account)
    .sort(newestFirst);
  await checkTotals(context, api, transfers);
  await checkList(context, api, transfers);
  await checkDetails(context, api, transfers);
  return transfers.length;
}

function accountOf({ log, report }: Context, key: string): string {
  const digest = sha256(key);
  const state = [...log.keys.values()].find(
    (candidate) => candidate.state.sha256 === digest,
  )?.state;
  if (!state) report.finding('api', 'the key of the check', 'the log does not hold it');
  return String(state?.account_id);
}

/** Sorted by `created_at`, then by id. */
function newestFirst(
  { state: { facts: a } }: TransferStory,
  { state: { facts: b } }: TransferStory,
): number {
  if (a.created_at !== b.created_at) return a.created_at < b.created_at ? 1 : -1;
  return a.transfer_id < b.transfer_id ? 1 : -1;
}

async function checkTotals(
  { report }: Context,
  api: Api,
  transfers: TransferStory[],
): Promise<void> {
  for (const status of [null, ...STATUSES]) {
    const expected = transfers.filter(
      ({ state }) => status === null || state.status === status,
    ).length;
    const { pagination } = await api.get<Page>(
      `/v1/transfers?limit=1${status === null ? '' : `&status=${status}`}`,
    );
    report.count('api_totals');
    if (pagination.total === expected) continue;
    report.finding(
      'api.totals',
      status ?? 'all',
      `pagination.total is ${pagination.total}, and the log has ${expected}`,
    );
  }
}

async function checkList({ report }: Context, api: Api, transfers: TransferStory[]): Promise<void> {
  const offsets = Array.from(
    { length: Math.ceil(transfers.length / PAGE) },
    (_, page) => page * PAGE,
  );
  await each(offsets, async (offset) => {
    const { data } = await api.get<Page>(`/v1/transfers?limit=${PAGE}&offset=${offset}`);
    const expected = transfers.slice(offset, offset + PAGE);
    for (let i = 0; i < Math.max(data.length, expected.length); i += 1) {
      report.count('api_list_items');
      const item = expected[i] ? listItem(expected[i]?.state as TransferState) : null;
      if (!same(data[i] ?? null, item))
        report.finding('api.list', `offset ${offset + i}`, differences(data[i], item));
    }
  });
}

async function checkDetails(
  { report }: Context,
  api: Api,
  transfers: TransferStory[],
): Promise<void> {
  const step = Math.max(1, Math.ceil(transfers.length / DETAILS));
  const sample = transfers.filter((_, i) => i % step === 0);
  await each(sample, async ({ state }) => {
    const id = state.facts.transfer_id;
    const answer = await api.get<Fields>(`/v1/transfers/${id}`);
    report.count('api_details');
    if (!same(answer, detail(state)))
      report.finding('api.detail', id, differences(answer, detail(state)));
  });
}

/** Returns every field of a list item. A new field of the API is also a change here. */
function listItem(state: TransferState): Fields {
  const { status, facts, completed_at = null, failed_at = null, cancelled_at = null } = state;
  return {
    id: facts.transfer_id,
    file_name: facts.file_name,
    size_bytes: facts.size_bytes,
    status,
    source: facts.source,
    destination: facts.destination,
    created_at: facts.created_at,
    completed_at,
    ended_at: completed_at ?? failed_at ?? cancelled_at,
    error: facts.error,
    retry_of: facts.retry_of,
    // The run is over: every transfer has ended.
    waiting_for: null,
  };
}

/** Returns every field of the detail. A new field of the API is also a change here. */
function detail(state: TransferState): Fields {
  const { status, facts, checksum_sha256 = null } = state;
  const { transferred_bytes, size_bytes, speed_bps, retry_count, error, priority, metadata } =
    facts;
  const share =
    size_bytes === null || size_bytes === 0
      ? 0
      : Math.floor((transferred_bytes / size_bytes) * 10_000) / 100;
  const progress_pct = status === 'completed' ? 100 : Math.min(99.99, share);
  return {
    ...listItem(state),
    transferred_bytes,
    progress_pct,
    speed_bps,
    checksum_sha256,
    retry_count,
    error,
    priority,
    metadata,
    batch_id: facts.batch_id ?? null,
    ...optionsOf(facts),
    ...(facts.after && { after: shownAfter(state) }),
  };
}

/** Returns the options that the transfer was created with. */
function optionsOf(facts: Fields): Fields {
  const names = ['expected_sha256', 'verify', 'preserve_mtime'];
  return Object.fromEntries(
    names.filter((name) => name in facts).map((name) => [name, facts[name]]),
  );
}

/** Members of each answer that follow from the log. */
async function checkCatalog({ log, report }: Context, api: Api, account: string): Promise<void> {
  const states = (entries: Context['log']['keys']) =>
    [...entries].map(([id, entry]) => ({ id, revision: entry.revision, ...entry.state }));
  const endpoints = states(log.endpoints)
    .filter(({ status }) => status === 'configured')
    .map((state: Fields) => {
      const {
        id,
        name,
        settings,
        max_connections,
        accounts,
        overwrite,
        bandwidth = null,
        paused,
        unreachable_since,
        revision,
        configured_at,
      } = state;
      return {
        id,
        name,
        ...(settings as Fields),
        ...hostKeysOf(state),
        ...((settings as Fields).protocol === 'ftps'
          ? {}
          : { via: (settings as Fields).via ?? null }),
        max_connections,
        accounts,
        overwrite,
        bandwidth,
        paused,
        unreachable_since,
        revision,
        configured_at,
      };
    });
  const keys = states(log.keys).map((state: Fields) => {
    const { id, name, account_id, scopes, last_four, created_at, expires_at, revoked_at } = state;
    return { id, name, account: account_id, scopes, last_four, created_at, expires_at, revoked_at };
  });
  const webhooks = states(log.webhooks)
    .filter((state: Fields) => state.status === 'active' && state.account_id === account)
    .map(({ id, url, events, enabled, created_at, updated_at }: Fields) => ({
      id,
      url,
      events,
      enabled,
      created_at,
      updated_at,
    }));
  for (const [name, expected] of Object.entries({ endpoints, keys, webhooks }) as [
    string,
    Fields[],
  ][]) {
    const { data } = await api.get<Page>(`/v1/${name}`);
    for (const id of new Set([...data, ...expected].map((item) => item.id))) {
      report.count('api_catalog_items');
      const should = expected.find((item) => item.id === id);
      const is = data.find((item) => item.id === id);
      const shown =
        is && Object.fromEntries(Object.keys(should ?? is).map((member) => [member, is[member]]));
      if (!same(shown ?? null, should ?? null))
        report.finding(`api.${name}`, String(id), differences(shown, should));
    }
  }
}

/** Returns the accepted host keys of an SFTP endpoint, and those that its server announced. */
function hostKeysOf({ settings, announced_host_keys }: Fields): Fields {
  const { protocol, host_key_sha256: sha256, host_keys } = settings as Fields;
  if (protocol !== 'sftp') return {};
  const single = sha256 === null ? [] : [{ sha256, expires_at: null }];
  const keys = (host_keys ?? single) as Fields[];
  const isAccepted = (key: unknown) => keys.some((accepted) => accepted.sha256 === key);
  const announced = (announced_host_keys as Fields[])
    .filter((key) => isAccepted(key.verified_by) && !isAccepted(key.sha256))
    .map(({ sha256, key_type, announced_at }) => ({ sha256, key_type, announced_at }));
  return { host_keys: keys, announced_host_keys: announced };
}

/**
 * Checks that GET /v1/events returns the whole log to an administrator, and its own events to an
 * account: each event as the log holds it. The service may have signed a checkpoint since the log
 * was read.
 */
async function checkExport(
  { log, report }: Context,
  api: Api,
  account: string | null,
): Promise<void> {
  const isOwn = (event: { account: unknown }) => account === null || event.account === account;
  const missing = new Set([...log.events].flatMap(([id, note]) => (isOwn(note) ? [id] : [])));
  for await (const line of api.lines('/v1/events')) {
    if (line === '') continue;
    const event = JSON.parse(line) as LoggedEvent;
    const isLater = BigInt(event.position) > log.end;
    if (isLater && /^(access-|log-checkpoints$)/.test(event.stream)) continue;
    report.count('api_events');
    missing.delete(event.id);
    const place = `${event.position} ${event.stream} ${event.revision} ${hashOf(event)}`;
    const known = log.events.get(event.id);
    if (known?.hash !== place)
      report.finding(
        'api.events',
        event.id,
        `the export has "${place}", and the log "${known?.hash}"`,
      );
    else if (!isOwn(known))
      report.finding('api.events', event.id, `the export of ${account} has an event of another`);
  }
  for (const id of missing) report.finding('api.events', id, 'the export leaves it out');
}

async function each<T>(items: T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const worker = async () => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
