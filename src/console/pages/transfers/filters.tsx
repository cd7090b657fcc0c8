import { useLocation } from 'preact-iso/router';
import { urlOf } from '../../api/client.ts';
import type { TransferListItem } from '../../api/operations.ts';
import { dayOf, type Edge, edgeOf } from '../../components/instants.ts';
import { SearchField } from '../../components/search-field.tsx';
import { useZone } from '../../components/time-zone.tsx';
import { labelOf, STATUSES, type TransferStatus } from './states.tsx';

const ADDRESS = '/console/transfers';
const DAY_MS = 86_400_000;

/** The query of `GET /v1/transfers`. */
export interface Filter {
  status?: TransferStatus;
  destination?: string;
  from_date?: string;
  to_date?: string;
}

export function readFilter(query: Record<string, string>): Filter {
  const { destination, from_date, to_date } = query;
  const status = STATUSES.find((known) => known === query.status);
  return {
    ...(status && { status }),
    ...(destination && { destination }),
    ...(from_date && { from_date }),
    ...(to_date && { to_date }),
  };
}

/** Returns true if a list with this filter would show the transfer. */
export function matches(
  {
    status,
    destination,
    created_at,
  }: Pick<TransferListItem, 'status' | 'destination' | 'created_at'>,
  filter: Filter,
): boolean {
  const { from_date = '', to_date = '' } = filter;
  const created = Date.parse(created_at);
  // A date is a whole day in UTC. An invalid time filters nothing here; the service reports it.
  const end = Date.parse(to_date) + (to_date.includes(':') ? 0 : DAY_MS - 1);
  return (
    (filter.status === undefined || status === filter.status) &&
    destination.startsWith(filter.destination ?? '') &&
    !(created < Date.parse(from_date) || created > end)
  );
}

/** Filters of the list; each change goes into the address. A transfer id opens that transfer. */
export function Filters({ filter }: { filter: Filter }) {
  const { route } = useLocation();
  const zone = useZone();

  function apply(changes: Record<string, string>): void {
    const id = changes.destination?.trim();
    if (id?.startsWith('txr_')) route(`${ADDRESS}/${id}`);
    else route(urlOf(ADDRESS, { query: { ...filter, ...changes } }));
  }
  /** The address has instants, so it shows the same transfers in every zone. */
  const day = (label: string, name: 'from_date' | 'to_date', edge: Edge) => (
    <label>
      <span>{label}</span>
      <input
        type="date"
        value={dayOf(filter[name] ?? '', edge, zone)}
        onChange={({ currentTarget }) => apply({ [name]: edgeOf(currentTarget.value, edge, zone) })}
      />
    </label>
  );

  return (
    <search>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SearchField
          label="Destination prefix or transfer id"
          value={filter.destination ?? ''}
          placeholder="sftp://bank/inbox/"
          onSearch={(destination) => apply({ destination })}
        />
        <label>
          <span>State</span>
          <select
            value={filter.status ?? ''}
            onChange={({ currentTarget }) => apply({ status: currentTarget.value })}
          >
            <option value="">All</option>
            {STATUSES.map((status) => (
              <option key={status} value={status}>
                {labelOf(status)}
              </option>
            ))}
          </select>
        </label>
        {day('Created from', 'from_date', 'start')}
        {day('Created to', 'to_date', 'end')}
      </form>
    </search>
  );
}
