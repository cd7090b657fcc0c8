import { useCallback, useEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';

/**
 * Returns a function that opens a page of the console after an answer of the service. It does
 * nothing if the user has left the page meanwhile.
 */
export function useOpen(): (href: string) => void {
  const { route } = useLocation();
  const latest = useRef(route);
  latest.current = route;
  const left = useRef(false);
  useEffect(() => {
    left.current = false;
    return () => {
      left.current = true;
    };
  }, []);
  return useCallback((href) => {
    if (!left.current) latest.current(href);
  }, []);
}
