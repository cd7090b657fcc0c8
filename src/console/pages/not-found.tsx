import { Page } from '../components/page.tsx';

export function NotFoundPage() {
  return (
    <Page title="Not found">
      <p>
        There is no such page. <a href="/console/transfers">Go to the transfers</a>
      </p>
    </Page>
  );
}
