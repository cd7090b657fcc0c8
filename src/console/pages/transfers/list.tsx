import { Page } from '../../components/page.tsx';

export function TransferListPage() {
  return <Page title="Transfers">{null}</Page>;
}
