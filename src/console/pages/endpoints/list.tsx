import { useLocation } from 'preact-iso/router';
import type { Endpoint, EndpointList } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { announcing, doubtful, notTrusted, rejecting, unreachable } from '../../attention.ts';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { ListSearch } from '../../components/forms/list-search.tsx';
import { Page } from '../../components/layout/page.tsx';
import { NoMatch, OnlySome } from '../../components/tables/only-some.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { EndpointStates } from '../../components/values/endpoint-health.tsx';
import { Icon } from '../../components/values/icon.tsx';
import { Time } from '../../components/values/time.tsx';
import { May } from '../../session.tsx';
import { LABELS, LIST, PROTOCOLS, serverOf } from './fields.ts';

const LOOK_MS = 10_000;

const COLUMNS: Column<Endpoint>[] = [
  {
    heading: 'Name',
    kind: 'row',
    cell: ({ id, name }) => (
      <a class="file" href={`/console/settings/endpoints/${id}`}>
        {name}
      </a>
    ),
  },
  { heading: 'Protocol', cell: ({ protocol }) => PROTOCOLS[protocol].label },
  { heading: 'Server', cell: (endpoint) => <code>{serverOf(endpoint)}</code> },
  {
    heading: 'State',
    cell: (endpoint) => (
      <span>
        <EndpointStates endpoint={endpoint} />
        {endpoint.health?.error && <span class="reason">{endpoint.health.error.message}</span>}
        {endpoint.health?.error_since && (
          <span class="route">
            First <Time at={endpoint.health.error_since} brief />
          </span>
        )}
      </span>
    ),
  },
  { heading: 'Last reached', cell: ({ health }) => <Time at={health?.last_success_at ?? null} /> },
];

/** Names of lists in the address, with the endpoints that they have. */
const STATES: Record<string, { what: string; of: (endpoints: EndpointList) => Endpoint[] }> = {
  unreachable: { what: 'unreachable endpoints', of: unreachable },
  rejecting: { what: 'endpoints that reject the sign-in', of: rejecting },
  untrusted: { what: 'endpoints whose servers are not trusted', of: notTrusted },
  doubtful: { what: 'endpoints that may not work', of: doubtful },
  announcing: { what: 'endpoints that announce a new host key', of: announcing },
};

/** Lists the servers that files are copied from and to; with `state` in the address, some. */
export function EndpointListPage() {
  const { q = '', state: name = '' } = useLocation().query;
  const state = Object.hasOwn(STATES, name) ? STATES[name] : undefined;
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/endpoints', { query: { ...(q && { q }) }, signal }),
    [q],
    LOOK_MS,
  );
  const rows = data && state ? state.of(data) : (data?.data ?? []);
  const add = (
    <May scope="admin">
      <a class="button primary" href="/console/settings/endpoints/new">
        <Icon name="plus" /> New endpoint
      </a>
    </May>
  );
  return (
    <Page title="Endpoints" subtitle="The servers that files come from and go to" actions={add}>
      {(q || data?.data.length !== 0) && <ListSearch placeholder="Name or host" />}
      <LoadState of={{ data, error, reload }} />
      {q && data?.data.length === 0 && <NoMatch what="endpoints" all={LIST} />}
      {!q && data?.data.length === 0 && (
        <Empty title="No endpoints yet">
          <p>
            An endpoint is a server with the account that Waybill signs in with:{' '}
            {LABELS.slice(0, -1).join(', ')} or {LABELS.at(-1)}. A transfer needs one to read from
            and one to write to.
          </p>
          {add}
        </Empty>
      )}
      {state && data && <OnlySome what={state.what} found={rows.length} all={LIST} />}
      {rows.length > 0 && (
        <Table caption="Endpoints by name" columns={COLUMNS} rows={rows} id={({ id }) => id} />
      )}
    </Page>
  );
}
