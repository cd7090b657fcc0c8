import { Page } from '../../components/page.tsx';

export function TransferPage() {
  return <Page title="Transfer">{null}</Page>;
}
