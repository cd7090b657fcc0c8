import type { RequestFailed } from '../../api/client.ts';
import { LoadState } from '../feedback/problem.tsx';
import { Page } from './page.tsx';

interface UnloadedPageProps {
  /** What the page shows, such as `Transfer`. */
  title: string;
  /** Null while it loads. */
  error: RequestFailed | null;
  retry: () => void;
  /** The list to go back to. */
  list: { href: string; label: string };
}

/** A page without its data: it loads, failed to load, or there is nothing at its address. */
export function UnloadedPage({ title, error, retry, list: { href, label } }: UnloadedPageProps) {
  if (error?.problem.status !== 404)
    return (
      <Page title={title}>
        <LoadState of={{ data: null, error, reload: retry }} />
      </Page>
    );
  return (
    // The key makes a new page of it, so that the heading gets the focus.
    <Page key="missing" title={`${title} not found`}>
      <section class="empty">
        <p>
          {error.problem.detail}. It may belong to another account, or it was removed. Check the
          address and the account.
        </p>
        <div class="actions">
          <a class="button" href={href}>
            {label}
          </a>
        </div>
      </section>
    </Page>
  );
}
