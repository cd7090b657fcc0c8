import { useEffect } from 'preact/hooks';

interface Left {
  scroll?: number;
  /** The address of the link that the user followed. */
  href?: string | null;
}

/**
 * After *Back* and *Forward*, scrolls to where the user was, and moves the focus to the link that
 * the user had followed. The browser tries to scroll too, but before the page has its data and is
 * long enough. The first input of the user ends both.
 */
export function useReturn(): void {
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    const left = new Map<string, Left>();
    const note = (what: Left) => left.set(location.href, { ...left.get(location.href), ...what });
    /** What the page does not have yet. */
    let wanted: Left = {};
    const scroll = () => {
      if (wanted.scroll === undefined) return;
      if (document.body.scrollHeight < wanted.scroll + innerHeight) return;
      scrollTo(0, wanted.scroll);
      wanted.scroll = undefined;
    };
    const focus = () => {
      const { href } = wanted;
      if (!href || !document.activeElement?.matches('body, h1')) return;
      document
        .querySelector<HTMLElement>(`main a[href="${CSS.escape(href)}"]`)
        ?.focus({ preventScroll: true });
    };
    const grown = new ResizeObserver(scroll);
    grown.observe(document.body);
    const filled = new MutationObserver(focus);
    filled.observe(document.body, { childList: true, subtree: true });
    const giveUp = () => {
      wanted = {};
    };
    addEventListener(
      'popstate',
      () => {
        wanted = { ...left.get(location.href) };
      },
      { signal },
    );
    addEventListener('scroll', () => wanted.scroll ?? note({ scroll: scrollY }), {
      signal,
      passive: true,
    });
    addEventListener(
      'click',
      ({ target }) => {
        const link = (target as Element).closest('main a[href]');
        if (link) note({ href: link.getAttribute('href') });
      },
      { signal, capture: true },
    );
    // The heading of a page that has just come takes the focus.
    addEventListener('focusin', focus, { signal });
    for (const name of ['wheel', 'keydown', 'pointerdown'])
      addEventListener(name, giveUp, { signal, passive: true });
    return () => {
      stop.abort();
      grown.disconnect();
      filled.disconnect();
    };
  }, []);
}
