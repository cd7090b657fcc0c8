import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface PageProps {
  /** The only h1, and the title in the browser. */
  title: string;
  /** Buttons at the end of the heading's line. */
  actions?: ComponentChildren;
  subtitle?: ComponentChildren;
  children: ComponentChildren;
}

/** A page. It moves the focus to its heading, for keyboards and screen readers. */
export function Page({ title, actions, subtitle, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Waybill`;
  }, [title]);
  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <>
      <header class="page-header">
        <div class="page-heading">
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {subtitle && <p class="subtitle">{subtitle}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}
