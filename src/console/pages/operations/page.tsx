import { Page } from '../../components/layout/page.tsx';
import { Graphs } from './graphs.tsx';
import { Movers } from './movers.tsx';
import { Projections } from './projections.tsx';

/** Shows whether the installation keeps up: movers, queue, graphs and projections. */
export function OperationsPage() {
  return (
    <Page title="Operations" subtitle="The whole installation, all accounts">
      <Movers />
      <Graphs />
      <Projections />
    </Page>
  );
}
