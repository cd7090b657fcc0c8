import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { recentSince } from '../domain/attention.ts';
import type {
  DeliveryList,
  EndpointList,
  FlowList,
  KeyList,
  ProjectionList,
  TransferSummary,
} from './api/api-types.ts';
import { call, whenChanged } from './api/client.ts';
import { LONGEST_PAGE } from './api/limits.ts';
import { type Loaded, useLoad } from './api/use-load.ts';
import { useVisible } from './api/use-visible.ts';
import { type Scope, useSession } from './session.tsx';

export const HOME = '/console';
const HOME_MS = 10_000;
/** Elsewhere only the navigation shows it. */
const ELSEWHERE_MS = 60_000;

/** A part of the overview; null if the session lacks the scope for it. */
export type Part<T> = Omit<Loaded<T>, 'set' | 'stale'> | null;

/** The state of the account and the installation: counts in the navigation, and the home page. */
export interface Overview {
  /** The last 24 hours, from a full hour on, as the filter of a list of transfers. */
  recent: { from_date: string };
  /** Of the transfers created since then. */
  summary: Part<TransferSummary>;
  endpoints: Part<EndpointList>;
  /** The newest flows of the account. */
  flows: Part<FlowList>;
  /** The newest failed delivery of the account, and how many there are. */
  failedDeliveries: Part<DeliveryList>;
  keys: Part<KeyList>;
  consumers: Part<ProjectionList>;
}

const Context = createContext<Overview | null>(null);

/** Returns the overview; for components inside OverviewProvider. */
export function useOverview(): Overview {
  const overview = useContext(Context);
  if (!overview) throw new Error('useOverview is used outside OverviewProvider');
  return overview;
}

/** Loads each part by itself, so that one which fails or is slow delays no other. */
export function OverviewProvider({ children }: { children: ComponentChildren }) {
  const { account } = useSession().session;
  const recent = { from_date: recentSince() };
  const summary = usePart(
    'transfers:read',
    (signal) => call('GET /v1/transfers/summary', { query: recent, signal }),
    [recent.from_date],
  );
  const endpoints = usePart('observe', (signal) => call('GET /v1/endpoints', { signal }));
  const flows = usePart('flows:read', (signal) =>
    call('GET /v1/flows', { query: { limit: LONGEST_PAGE }, signal }),
  );
  const failedDeliveries = usePart('observe', (signal) =>
    call('GET /v1/deliveries', { query: { status: 'failed', account, limit: 1 }, signal }),
  );
  const keys = usePart('admin', (signal) => call('GET /v1/keys', { signal }));
  const consumers = usePart('admin', (signal) => call('GET /v1/projections', { signal }));
  useChanges({ endpoints, flows, keys });
  useFreshHome([summary, endpoints, flows, failedDeliveries, keys, consumers]);

  return (
    <Context.Provider
      value={{ recent, summary, endpoints, flows, failedDeliveries, keys, consumers }}
    >
      {children}
    </Context.Provider>
  );
}

/** Loads what the session may read, and repeats it while the page is visible. */
export function usePart<T>(
  scope: Scope,
  load: (signal: AbortSignal) => Promise<T>,
  dependencies: unknown[] = [],
): Part<T> {
  const { account, scopes } = useSession().session;
  const atHome = useLocation().path === HOME;
  const may = scopes.includes(scope);
  const { data, error, loading, reload } = useLoad(
    async (signal) => (may ? { account, answer: (await load(signal)) as T } : null),
    [account, may, ...dependencies],
    atHome ? HOME_MS : ELSEWHERE_MS,
  );
  if (!may) return null;
  // The last answer may belong to another account.
  return { data: data?.account === account ? data.answer : null, error, loading, reload };
}

/** Loads again when the user returns to the home page. */
function useFreshHome(parts: Part<unknown>[]): void {
  const { path } = useLocation();
  const shown = useVisible() && path === HOME;
  const isFirst = useRef(true);
  useEffect(() => {
    if (shown && !isFirst.current) for (const part of parts) part?.reload();
    isFirst.current = false;
  }, [shown]);
}

/** Loads a part again after a change to its resource: other pages show names and states of it. */
function useChanges(parts: Record<string, Part<unknown>>): void {
  const latest = useRef(parts);
  latest.current = parts;
  useEffect(() => whenChanged((resource) => latest.current[resource]?.reload()), []);
}
