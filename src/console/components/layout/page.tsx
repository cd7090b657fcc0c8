import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

interface PageProps {
  /** The only h1, and the title in the browser. */
  title: string;
  /** Buttons at the end of the heading's line. */
  actions?: ComponentChildren;
  subtitle?: ComponentChildren;
  children: ComponentChildren;
}

/** A longer title, such as the URL of a webhook, is cut after three lines. The page has it whole. */
const LONGEST = 100;

/** The address of the last page that took the focus. */
let focused: string | null = null;

/**
 * A page. It moves the focus to its heading, for keyboards and screen readers. When its data takes
 * the place of an empty page, the focus stays where the user has moved it meanwhile. If a button at
 * the heading goes with its focus, such as that of a transfer which has ended, the heading gets it.
 */
export function Page({ title, actions, subtitle, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  const buttons = useRef<HTMLDivElement>(null);
  const isLong = title.length > LONGEST;
  const acted = buttons.current?.contains(document.activeElement);
  useLayoutEffect(() => {
    if (acted && document.activeElement === document.body)
      heading.current?.focus({ preventScroll: true });
  });
  useEffect(() => {
    document.title = `${title} · Waybill`;
  }, [title]);
  useEffect(() => {
    const { pathname } = location;
    if (focused !== pathname || document.activeElement === document.body)
      heading.current?.focus({ preventScroll: true });
    focused = pathname;
  }, []);
  return (
    <>
      <header class="page-header">
        <div class="page-heading">
          <h1
            ref={heading}
            class={isLong ? 'clamp' : undefined}
            title={isLong ? title : undefined}
            tabIndex={-1}
          >
            {title}
          </h1>
          {subtitle && <p class="subtitle">{subtitle}</p>}
        </div>
        {actions && (
          <div ref={buttons} class="actions">
            {actions}
          </div>
        )}
      </header>
      {children}
    </>
  );
}
