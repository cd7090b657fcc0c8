import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Page } from '../../components/layout/page.tsx';
import { type Overview, useOverview, usePart } from '../../overview.tsx';
import { FirstSteps } from '../transfers/first-steps.tsx';
import { Attention } from './attention.tsx';
import { checksOf } from './checks.ts';
import { Recent } from './recent.tsx';
import { findWaiting } from './waiting.ts';

/** Says at a glance whether something is wrong, and counts the transfers of the last 24 hours. */
export function HomePage() {
  const overview = useOverview();
  const movers = usePart('admin', (signal) => call('GET /v1/movers', { signal }));
  const waiting = usePart('transfers:read', findWaiting);
  const missing = useMissing(overview);
  return (
    <Page title="Home">
      <Attention checks={checksOf(overview, movers, waiting)} />
      {missing && <FirstSteps title={missing} />}
      {!missing && overview.summary && <Recent summary={overview.summary} />}
    </Page>
  );
}

/** Returns what the first steps are about: no endpoint or no transfer. Null if there are both. */
function useMissing({ endpoints, summary }: Overview): string | null {
  const noneRecent = summary?.data?.total === 0;
  const { data: newest } = useLoad(
    async (signal) =>
      noneRecent ? await call('GET /v1/transfers', { query: { limit: 1 }, signal }) : null,
    [noneRecent],
  );
  if (endpoints?.data?.data.length === 0) return 'No endpoints yet';
  return noneRecent && newest?.data.length === 0 ? 'No transfers yet' : null;
}
