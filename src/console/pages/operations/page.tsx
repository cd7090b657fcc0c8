import { Page } from '../../components/page.tsx';
import { Graphs } from './graphs.tsx';
import { Movers } from './movers.tsx';
import { Projections } from './projections.tsx';

/** Whether the installation keeps up: who moves, what waits, how it went, and how far the views of the log are. */
export function OperationsPage() {
  return (
    <Page title="Operations" subtitle="Of the whole installation, every account">
      <Movers />
      <Graphs />
      <Projections />
    </Page>
  );
}
