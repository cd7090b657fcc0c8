import { useEffect } from 'preact/hooks';
import { call, whenReached } from '../api/client.ts';
import { Page } from '../components/layout/page.tsx';

/** Replaces a page whose code did not load: the service is away, or was upgraded meanwhile. */
export function UnavailablePage() {
  useEffect(() => {
    // The browser does not ask again for code that failed to load.
    const stop = whenReached((reached) => reached && location.reload());
    // Finds out whether the service is away: until it answers, the shell asks again.
    call('GET /v1/session').catch(() => undefined);
    return stop;
  }, []);
  return (
    <Page title="Page not loaded">
      <section class="empty" role="alert">
        <p>The service did not send this page. It may be away, or a newer version runs.</p>
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>
      </section>
    </Page>
  );
}
