import { Page } from '../components/page.tsx';

/** Replaces a page whose code did not load: the service is away, or was upgraded meanwhile. */
export function UnavailablePage() {
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
