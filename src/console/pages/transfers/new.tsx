import { Page } from '../../components/page.tsx';

export function NewTransferPage() {
  return <Page title="New transfer">{null}</Page>;
}
