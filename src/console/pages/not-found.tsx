import { Page } from '../components/layout/page.tsx';

const PLACES = {
  '/console': 'Open Home',
  '/console/transfers': 'Show transfers',
  '/console/webhooks': 'Show webhooks',
  '/console/settings/endpoints': 'Show endpoints',
};

/** The page for an address of the console that has none. */
export function NotFoundPage() {
  return (
    <Page title="Page not found">
      <section class="empty">
        <p>The console has no page at this address.</p>
        <div class="actions">
          {Object.entries(PLACES).map(([href, label]) => (
            <a key={href} class="button" href={href}>
              {label}
            </a>
          ))}
        </div>
      </section>
    </Page>
  );
}
