import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from './api/client.ts';
import type {
  DeliveryList,
  EndpointList,
  KeyList,
  ProjectionList,
  TransferSummary,
} from './api/operations.ts';
import { type Loaded, useLoad } from './api/use-load.ts';
import { useVisible } from './api/use-visible.ts';
import { dayOf, edgeOf } from './components/instants.ts';
import { useZone } from './components/time-zone.tsx';
import { type Scope, useSession } from './session.tsx';

export const HOME = '/console';
const HOME_MS = 10_000;
/** Elsewhere only the navigation shows it. */
const ELSEWHERE_MS = 60_000;

/** A part of the overview; null if the session lacks the scope for it. */
export type Part<T> = Omit<Loaded<T>, 'set'> | null;

/** The state of the account and the installation: counts in the navigation, and the home page. */
export interface Overview {
  /** Today in the chosen zone, as the filter of a list of transfers. */
  today: { from_date: string; to_date: string };
  /** Of the transfers created today. */
  summary: Part<TransferSummary>;
  endpoints: Part<EndpointList>;
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
  const today = useToday();
  const summary = usePart(
    'transfers:read',
    (signal) => call('GET /v1/transfers/summary', { query: today, signal }),
    [today.from_date],
  );
  const endpoints = usePart('observe', (signal) => call('GET /v1/endpoints', { signal }));
  const failedDeliveries = usePart('observe', (signal) =>
    call('GET /v1/deliveries', { query: { status: 'failed', account, limit: 1 }, signal }),
  );
  const keys = usePart('admin', (signal) => call('GET /v1/keys', { signal }));
  const consumers = usePart('admin', (signal) => call('GET /v1/projections', { signal }));
  useFreshHome([summary, endpoints, failedDeliveries, keys, consumers]);

  return (
    <Context.Provider value={{ today, summary, endpoints, failedDeliveries, keys, consumers }}>
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

function useToday(): Overview['today'] {
  const zone = useZone();
  const day = dayOf(new Date().toISOString(), 'start', zone);
  return { from_date: edgeOf(day, 'start', zone), to_date: edgeOf(day, 'end', zone) };
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
