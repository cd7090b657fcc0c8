import { useLocation } from 'preact-iso/router';
import { urlOf } from '../api/client.ts';

interface PagerProps {
  total: number;
  offset: number;
  limit: number;
}

/** Leads to the other pages of a list, whose address takes `offset`. */
export function Pager({ total, offset, limit }: PagerProps) {
  const { path, query } = useLocation();
  const to = (start: number) => urlOf(path, { query: { ...query, offset: start > 0 ? start : undefined } });
  const last = Math.max(0, Math.ceil(total / limit) - 1) * limit;
  return (
    <nav class="pager" aria-label="Pages">
      <p class="muted number">
        {Math.min(offset + 1, total).toLocaleString()}–{Math.min(offset + limit, total).toLocaleString()} of {total.toLocaleString()}
      </p>
      {total > limit && (
        <div class="actions">
          <PageLink href={offset > 0 ? to(0) : null}>First</PageLink>
          <PageLink href={offset > 0 ? to(Math.max(0, offset - limit)) : null}>Previous</PageLink>
          <PageLink href={offset < last ? to(offset + limit) : null}>Next</PageLink>
          <PageLink href={offset < last ? to(last) : null}>Last</PageLink>
        </div>
      )}
    </nav>
  );
}

function PageLink({ href, children }: { href: string | null; children: string }) {
  if (href !== null) {
    return (
      <a class="button" href={href}>
        {children}
      </a>
    );
  }
  return (
    <button type="button" disabled>
      {children}
    </button>
  );
}
