import { useEffect } from 'preact/hooks';

const CONTROLS = 'a[href], button, input, select, textarea, [tabindex="0"]';

/**
 * Moves the focus when the element that has it leaves the page, such as the button of a row that
 * its action removes. Else the keyboard would begin again at the top of the page. The next row of
 * the same kind gets the focus, or the one before. Without one, the heading of the page does, or the
 * first control of a dialog.
 */
export function useKeptFocus(): void {
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    let focused: Element | null = null;
    const isLost = () => document.activeElement === document.body;
    const removals = new MutationObserver((changes) => {
      const lost = focused;
      if (lost === null || lost.isConnected || !isLost()) return;
      const change = changes.find(({ removedNodes }) => containerOf(lost, removedNodes));
      if (change) successorOf(lost, change)?.focus({ preventScroll: true });
    });
    removals.observe(document.body, { childList: true, subtree: true });
    const note = ({ target }: FocusEvent) => {
      focused = target as Element;
    };
    // The user may also leave it for no other, with a click beside it.
    const forget = () =>
      queueMicrotask(() => {
        if (focused?.isConnected && isLost()) focused = null;
      });
    document.addEventListener('focusin', note, { signal });
    document.addEventListener('focusout', forget, { signal });
    return () => {
      stop.abort();
      removals.disconnect();
    };
  }, []);
}

function containerOf(lost: Element, nodes: NodeList): Element | undefined {
  return [...nodes].find((node) => node.contains(lost)) as Element | undefined;
}

function successorOf(lost: Element, change: MutationRecord): HTMLElement | null | undefined {
  const { removedNodes, nextSibling, previousSibling, target } = change;
  const gone = containerOf(lost, removedNodes) as Element;
  const place = controlsIn(gone).indexOf(lost as HTMLElement);
  const next = nextSibling instanceof Element ? nextSibling : null;
  const before = previousSibling instanceof Element ? previousSibling : null;
  for (const other of [next, before]) {
    // Another button does something else. A row of the same kind has the same controls.
    const isAlike = other?.tagName === gone.tagName && other.className === gone.className;
    if (gone === lost || !other?.isConnected || !isAlike) continue;
    const controls = controlsIn(other);
    const control = controls[place] ?? controls.at(-1);
    if (control) return control;
  }
  const dialog = (target as Element).closest('dialog');
  return dialog?.isConnected ? controlsIn(dialog)[0] : document.querySelector<HTMLElement>('h1');
}

function controlsIn(element: Element): HTMLElement[] {
  return [...element.querySelectorAll<HTMLElement>(CONTROLS)];
}
