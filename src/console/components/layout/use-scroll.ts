import { useEffect } from 'preact/hooks';

/**
 * Scrolls back to where the user was, after *Back* and *Forward*. The browser tries that too, but
 * before the page has its data and is long enough.
 */
export function useScroll(): void {
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    const positions = new Map<string, number>();
    /** Where to go as soon as the page is long enough. */
    let target: number | undefined;
    const reach = () => {
      if (target === undefined || document.body.scrollHeight < target + innerHeight) return;
      scrollTo(0, target);
      target = undefined;
    };
    const grown = new ResizeObserver(reach);
    grown.observe(document.body);
    const giveUp = () => {
      target = undefined;
    };
    addEventListener(
      'popstate',
      () => {
        target = positions.get(location.href);
      },
      { signal },
    );
    addEventListener('scroll', () => target ?? positions.set(location.href, scrollY), {
      signal,
      passive: true,
    });
    for (const name of ['wheel', 'keydown', 'pointerdown'])
      addEventListener(name, giveUp, { signal, passive: true });
    return () => {
      stop.abort();
      grown.disconnect();
    };
  }, []);
}
