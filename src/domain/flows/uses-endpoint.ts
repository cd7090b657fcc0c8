import type { Endpoint } from '../endpoints/endpoint.ts';
import { matchEndpoint, parseTransferUri } from '../uri.ts';
import type { Flow } from './flow.ts';
import { exampleOf } from './template.ts';

/** Returns whether the files of a flow come from one of these endpoints, or go to it. */
export function usesEndpoint(
  { account_id, source, destination_uri }: Flow,
  endpointId: string,
  endpoints: readonly Endpoint[],
): boolean {
  const source_uri = parseTransferUri(source.uri, 'source_uri');
  const destination = parseTransferUri(exampleOf(destination_uri), 'destination_uri');
  return [source_uri, destination].some(
    (uri) => matchEndpoint(uri, endpoints, account_id)?.endpoint.endpoint_id === endpointId,
  );
}
