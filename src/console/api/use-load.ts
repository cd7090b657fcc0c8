import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { isTransient, isUnanswered, RequestFailed, whenReached } from './client.ts';
import { isVisible, useVisible } from './use-visible.ts';

export interface Loaded<T> {
  /**
   * The latest result; null before the first. It stays while a newer one loads, but not if the
   * service rejects a request with other dependencies.
   */
  data: T | null;
  /** Why the last request failed. */
  error: RequestFailed | null;
  loading: boolean;
  /** The data are of earlier dependencies, such as the filter before the chosen one. */
  stale: boolean;
  reload: () => void;
  /**
   * Replaces the data, for example with the response to a change. Drops the response to a request
   * under way: it may be of before the change.
   */
  set: (data: T) => void;
}

interface State<T> extends Pick<Loaded<T>, 'data' | 'error' | 'loading'> {
  /** The dependencies of the data. */
  of: unknown[];
}

/**
 * Loads data, and loads it again when one of `dependencies` changes. While the page is visible, it
 * also loads `every` milliseconds after the end of the last load. Drops outdated responses. What the
 * service did not answer is loaded when it answers again.
 */
export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  dependencies: unknown[],
  every?: number | ((data: T | null) => number),
): Loaded<T> {
  const [{ of, ...state }, setState] = useState<State<T>>({
    data: null,
    of: dependencies,
    error: null,
    loading: true,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const underWay = useRef<AbortController>(null);
  const show = (data: T) => setState({ data, of: dependencies, error: null, loading: false });

  useEffect(() => {
    const stop = new AbortController();
    underWay.current = stop;
    setState((before) => ({ ...before, loading: true }));
    latest.current(stop.signal).then(
      (data) => stop.signal.aborted || show(data),
      (error: unknown) => {
        if (stop.signal.aborted) return;
        if (!(error instanceof RequestFailed)) throw error;
        setState((before) => ({
          ...before,
          // The answer to an earlier question, such as another filter, is none to a rejected one.
          data: isTransient(error.problem) || !differ(dependencies, before.of) ? before.data : null,
          error: before.error && isSame(before.error, error) ? before.error : error,
          loading: false,
        }));
      },
    );
    return () => stop.abort();
  }, [...dependencies, round]);

  const reload = useCallback(() => setRound((before) => before + 1), []);
  const { loading } = state;
  const everyMs = typeof every === 'function' ? every(state.data) : every;
  useEffect(() => {
    if (everyMs === undefined || loading) return;
    const timer = setInterval(() => isVisible() && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, loading, reload]);

  // What failed while the page was hidden, or because the session had ended, may work now.
  const visible = useVisible();
  useEffect(() => {
    if (visible && state.error) reload();
  }, [visible]);

  // A request that still waits may have been sent over a connection that broke meanwhile.
  const unanswered = loading || (state.error !== null && isUnanswered(state.error.problem));
  useEffect(
    () => (unanswered ? whenReached((reached) => reached && reload()) : undefined),
    [unanswered, reload],
  );

  const stale = state.data !== null && differ(dependencies, of);
  const set = (data: T) => {
    underWay.current?.abort();
    show(data);
  };
  return { ...state, stale, reload, set };
}

function differ(now: unknown[], before: unknown[]): boolean {
  return now.some((value, at) => value !== before[at]);
}

/** A repeated error stays the first one: screen readers would read the id of each request. */
function isSame({ problem: before }: RequestFailed, { problem: now }: RequestFailed): boolean {
  return before.status === now.status && before.code === now.code && before.detail === now.detail;
}
