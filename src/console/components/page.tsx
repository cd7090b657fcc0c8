import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface PageProps {
  /** The page's one heading, and its title in the browser. */
  title: string;
  /** What can be done here, at the end of the heading's line. */
  actions?: ComponentChildren;
  /** A line under the heading. */
  subtitle?: ComponentChildren;
  children: ComponentChildren;
}

/** A page: who comes to it by keyboard or with a screen reader begins at its heading. */
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
