import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { useUnsentParts } from '../../session.tsx';
import { Dialog } from '../dialogs/dialog.tsx';

/**
 * Asks before the user leaves a page with unsent input: by a link beside its form, with *Back* or
 * *Forward*, or by a reload, where the browser itself asks. Returns the question, and what asks it
 * before something else that ends the page.
 */
export function useLeaveGuard(): [question: ComponentChildren, mayLeave: () => Promise<boolean>] {
  const unsent = useUnsentParts();
  const { route } = useLocation();
  const latest = useRef(route);
  latest.current = route;
  const [question, ask] = useState<{ answer: (leaves: boolean) => void } | null>(null);
  const mayLeave = useCallback(async () => {
    if (unsent.size === 0) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    ask({ answer: resolve });
    const leaves = await promise;
    ask(null);
    if (leaves) unsent.clear();
    return leaves;
  }, [unsent]);

  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    /** The query counts too: it can name the transfer whose values fill a form. */
    const loses = (href: string) => {
      const { pathname, search } = new URL(href);
      return unsent.size > 0 && pathname + search !== location.pathname + location.search;
    };
    const leaveFor = async (go: () => unknown) => (await mayLeave()) && go();
    const onClick = (event: MouseEvent) => {
      const link = linkOf(event);
      if (!link || !loses(link.href)) return;
      // Else the router opens the page, or the browser does.
      event.preventDefault();
      event.stopPropagation();
      void leaveFor(() => latest.current(link.pathname + link.search));
    };
    const onNavigate = (event: NavigateEvent) => {
      const { navigationType, destination } = event;
      // Not after a second press of Back, which nothing can stop.
      if (navigationType !== 'traverse' || !event.cancelable || !loses(destination.url)) return;
      event.preventDefault();
      void leaveFor(() => navigation.traverseTo(destination.key));
    };
    addEventListener('click', onClick, { signal, capture: true });
    addEventListener('beforeunload', (event) => unsent.size > 0 && event.preventDefault(), {
      signal,
    });
    // Older browsers lack it.
    window.navigation?.addEventListener('navigate', onNavigate, { signal });
    return () => stop.abort();
  }, [unsent, mayLeave]);

  return [question && <Question {...question} />, mayLeave];
}

function Question({ answer }: { answer: (leaves: boolean) => void }) {
  return (
    <Dialog title="Leave this page?" onClose={() => answer(false)}>
      <p>What you have not saved or copied on this page is lost if you leave.</p>
      <div class="actions">
        <button type="button" class="primary" onClick={() => answer(false)}>
          Stay
        </button>
        <button type="button" class="danger" onClick={() => answer(true)}>
          Leave
        </button>
      </div>
    </Dialog>
  );
}

/** Returns the link that a click opens in this tab. One that belongs to a form gives the form up. */
function linkOf({ target, button, ctrlKey, metaKey, shiftKey, altKey }: MouseEvent) {
  if (button !== 0 || ctrlKey || metaKey || shiftKey || altKey) return null;
  const link = (target as Element).closest<HTMLAnchorElement>('a[href]');
  if (link?.origin !== location.origin || link.target !== '') return null;
  return link.closest('form .actions') ? null : link;
}
