import type { ComponentChildren } from 'preact';
import {
  absolute,
  dayOf,
  type Edge,
  edgeOf,
  type Zone,
} from '../../../components/values/instants.ts';
import { Name } from '../../../components/values/names.tsx';
import { useZone } from '../../../components/values/time-zone.tsx';
import { useOverview } from '../../../overview.tsx';
import { addressOf, type Filter, type View } from '../filter.ts';

/** Shows the filters without a field, each with a link that removes it. */
export function Conditions({ view }: { view: View }) {
  const zone = useZone();
  const endpoints = useOverview().endpoints?.data?.data ?? [];
  const {
    destination,
    error_endpoint_id,
    retry_of,
    batch_id,
    from_date = '',
    to_date = '',
  } = view.filter;
  /** Whether a limit is a time within a day, which the fields for dates cannot show. */
  const isWithinDay = (limit: string, edge: Edge) =>
    limit.includes(':') && edgeOf(dayOf(limit, edge, zone), edge, zone) !== limit;
  return (
    <>
      {(isWithinDay(from_date, 'start') || isWithinDay(to_date, 'end')) && (
        <Condition view={view} names={['from_date', 'to_date']} all="Show all times">
          Created{from_date && ` from ${timeOf(from_date, zone)}`}
          {to_date && ` to ${timeOf(to_date, zone)}`}
        </Condition>
      )}
      {error_endpoint_id && (
        <Condition view={view} names={['error_endpoint_id']} all="Show all endpoints">
          Failed at the endpoint{' '}
          <a href={`/console/settings/endpoints/${error_endpoint_id}`}>
            <Name
              of={endpoints.find(({ id }) => id === error_endpoint_id)?.name ?? error_endpoint_id}
            />
          </a>
        </Condition>
      )}
      {destination && (
        <Condition view={view} names={['destination']} all="Show all destinations">
          Destination starts with <code>{destination}</code>
        </Condition>
      )}
      {batch_id && (
        <Condition view={view} names={['batch_id']} all="Show all transfers">
          Of the batch <a href={`/console/batches/${batch_id}`}>{batch_id}</a>
        </Condition>
      )}
      {retry_of && (
        <Condition view={view} names={['retry_of']} all="Show all transfers">
          Retries of <a href={`/console/transfers/${retry_of}`}>{retry_of}</a>
        </Condition>
      )}
    </>
  );
}

interface ConditionProps {
  view: View;
  names: (keyof Filter)[];
  /** Text of the link. */
  all: string;
  children: ComponentChildren;
}

function Condition({ view, names, all, children }: ConditionProps) {
  return (
    <p class="muted">
      {children}.{' '}
      <a href={addressOf(view, Object.fromEntries(names.map((name) => [name, ''])))}>{all}</a>
    </p>
  );
}

function timeOf(limit: string, zone: Zone): string {
  return Number.isNaN(Date.parse(limit)) ? limit : absolute(limit, zone);
}
