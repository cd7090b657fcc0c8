import { useEffect, useRef, useState } from 'preact/hooks';
import { call } from './client.ts';
import { useVisible } from './use-visible.ts';

const RETRY_MS = 5_000;

/**
 * Follows server-sent events of these types at an address, unless it is null. Returns true while
 * the stream is open. A broken stream reconnects and starts again with its first event. A hidden
 * page follows no stream: a browser has six connections to a service, for all of its tabs.
 */
export function useEvents<T>(
  url: string | null,
  types: readonly string[],
  onEvent: (type: string, data: T) => void,
): boolean {
  const [live, setLive] = useState(false);
  const latest = useRef(onEvent);
  latest.current = onEvent;
  const names = types.join(' ');
  const visible = useVisible();

  useEffect(() => {
    if (url === null || !visible) return;
    let source: EventSource;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      source = new EventSource(url);
      source.onopen = () => setLive(true);
      source.onerror = () => {
        setLive(false);
        // The call detects an ended session, and a service that is away.
        call('GET /v1/session').catch(() => undefined);
        // The browser reconnects a broken stream, but not a rejected one.
        if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, RETRY_MS);
      };
      for (const type of names.split(' ')) {
        source.addEventListener(type, (event: MessageEvent<string>) =>
          latest.current(type, JSON.parse(event.data)),
        );
      }
    };
    open();
    return () => {
      clearTimeout(timer);
      source.close();
      setLive(false);
    };
  }, [url, names, visible]);

  return live;
}
