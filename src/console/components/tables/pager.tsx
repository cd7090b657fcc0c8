import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { urlOf } from '../../api/client.ts';

interface PagerProps {
  pagination: {
    total: number;
    offset: number;
    limit: number;
    has_more: boolean;
    total_is_exact?: boolean;
  };
  /** Rows on this page. */
  shown: number;
  /** The largest total that this list counts; a total of this value may be larger. */
  countedTo?: number;
  /** Controls beside the links. */
  children?: ComponentChildren;
}

type Counted = Pick<PagerProps['pagination'], 'total' | 'total_is_exact'>;

/** Returns whether a list may have more rows than its total says. */
function isOpen({ total, total_is_exact = true }: Counted, countedTo = Number.POSITIVE_INFINITY) {
  return !total_is_exact || total >= countedTo;
}

/** Says how many rows a list has. */
export function foundIn(counted: Counted, countedTo?: number): string {
  if (counted.total === 0) return 'Nothing found';
  const total = counted.total.toLocaleString('en');
  return `${isOpen(counted, countedTo) ? 'At least ' : ''}${total} found`;
}

/** Links to the other pages of a list whose address takes `offset`. */
export function Pager({ pagination, shown, countedTo, children }: PagerProps) {
  const { total, offset, limit, has_more } = pagination;
  const { path, query } = useLocation();
  const nav = useRef<HTMLElement>(null);
  const showFirstRow = () => nav.current?.previousElementSibling?.scrollIntoView();
  const to = (start: number) =>
    urlOf(path, { query: { ...query, offset: start > 0 ? start : undefined } });
  const end = offset + shown;
  const open = isOpen(pagination, countedTo);
  const last = Math.max(0, Math.ceil(total / limit) - 1) * limit;
  return (
    <nav ref={nav} class="pager" aria-label="Pages">
      <p class="muted number">
        {shown > 0
          ? `${(offset + 1).toLocaleString('en')}–${end.toLocaleString('en')} of `
          : 'This page is past the end of the list: it has '}
        {open && 'at least '}
        {total.toLocaleString('en')}
        {shown === 0 && ' in all'}
      </p>
      {children}
      {(has_more || offset > 0) && (
        <div class="actions">
          <PageLink href={offset > 0 ? to(0) : null} onTurn={showFirstRow}>
            First
          </PageLink>
          <PageLink
            href={offset > 0 ? to(Math.max(0, Math.min(offset - limit, last))) : null}
            onTurn={showFirstRow}
          >
            Previous
          </PageLink>
          <PageLink href={has_more ? to(offset + limit) : null} onTurn={showFirstRow}>
            Next
          </PageLink>
          <PageLink href={has_more && !open ? to(last) : null} onTurn={showFirstRow}>
            Last
          </PageLink>
        </div>
      )}
    </nav>
  );
}

interface PageLinkProps {
  href: string | null;
  onTurn: () => void;
  children: string;
}

/** The same element with and without an address, so that it keeps the focus on the last page. */
function PageLink({ href, onTurn, children }: PageLinkProps) {
  return (
    <a
      class="button"
      {...(href === null
        ? { role: 'link', tabIndex: 0, 'aria-disabled': true }
        : { href, onClick: onTurn })}
    >
      {children}
    </a>
  );
}
