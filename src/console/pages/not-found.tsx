import { Page } from '../components/page.tsx';

export function NotFoundPage() {
  return (
    <Page title="Not found">
      <p>
        This page does not exist. <a href="/console/transfers">Show transfers</a>
      </p>
    </Page>
  );
}
