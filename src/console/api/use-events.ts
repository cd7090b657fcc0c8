import { useEffect, useRef, useState } from 'preact/hooks';
import { askWhetherReached, call, isReached, whenReached } from './client.ts';
import { useVisible } from './use-visible.ts';

const RETRY_MS = 5_000;
/** A stream may be silent because nothing happens, or because the service is frozen. */
const QUIET_MS = 5_000;

/** Whether what a page shows is live. */
export interface Liveness {
  live: boolean;
  /** The last sign of life before it was lost. Null while it is live, and before it ever was. */
  since: string | null;
}

/**
 * Follows server-sent events of these types at an address, unless it is null. A broken stream
 * reconnects and starts again with its first event. If the stream is silent, asks whether the
 * service answers: a frozen one keeps its connections. A hidden page follows no stream: a browser
 * has six connections to a service, for all of its tabs.
 */
export function useEvents<T>(
  url: string | null,
  types: readonly string[],
  onEvent: (type: string, data: T) => void,
): Liveness {
  const [state, setState] = useState<Liveness>({ live: false, since: null });
  const latest = useRef(onEvent);
  latest.current = onEvent;
  const names = types.join(' ');
  const visible = useVisible();

  useEffect(() => {
    if (url === null || !visible) return;
    let source: EventSource;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let seenAt = 0;
    const lose = () =>
      setState((before) =>
        before.live ? { live: false, since: new Date(seenAt).toISOString() } : before,
      );
    const see = () => {
      seenAt = Date.now();
    };
    const open = () => {
      clearTimeout(timer);
      source?.close();
      source = new EventSource(url);
      source.onopen = () => {
        see();
        setState({ live: true, since: null });
      };
      source.onerror = () => {
        lose();
        // The call detects an ended session, and a service that is away.
        call('GET /v1/session').catch(() => undefined);
        // The browser reconnects a broken stream, but not a rejected one.
        if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, RETRY_MS);
      };
      for (const type of names.split(' ')) {
        source.addEventListener(type, (event: MessageEvent<string>) => {
          see();
          latest.current(type, JSON.parse(event.data));
        });
      }
    };
    const asking = setInterval(async () => {
      if (Date.now() - seenAt < QUIET_MS || source.readyState !== EventSource.OPEN) return;
      await askWhetherReached();
      if (isReached()) see();
    }, QUIET_MS);
    // After an outage, the connection of the stream may be gone without an error.
    const unfollow = whenReached((reached) => (reached ? open() : lose()));
    open();
    return () => {
      clearTimeout(timer);
      clearInterval(asking);
      unfollow();
      source.close();
      lose();
    };
  }, [url, names, visible]);

  return state;
}
