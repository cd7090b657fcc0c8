import type { ComponentChildren } from 'preact';

/** Replaces an empty list: says what would be here and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <section class="empty">
      <h2>{title}</h2>
      {children}
    </section>
  );
}
