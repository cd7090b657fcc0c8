import { EndpointStates, shownHealthOf } from '../../components/values/endpoint-health.tsx';
import { useOverview } from '../../overview.tsx';
import { placeOf } from './new/place.ts';

/** Links to the endpoint that a URI names, and says if it has a problem. */
export function EndpointLink({ of }: { of: string }) {
  const { endpoint } = placeOf(of, useOverview().endpoints?.data?.data ?? []);
  if (endpoint === null) return null;
  const troubled = endpoint.paused || ['bad', 'warning'].includes(shownHealthOf(endpoint).tone);
  return (
    <span class="endpoint-link">
      Endpoint <a href={`/console/settings/endpoints/${endpoint.id}`}>{endpoint.name}</a>
      {troubled && <EndpointStates endpoint={endpoint} />}
    </span>
  );
}
