import type { Endpoint } from '../endpoints/endpoint.ts';
import { isOnEndpoint } from '../uri.ts';
import type { Flow } from './flow.ts';
import { exampleOf } from './template.ts';

/** Returns whether the files of a flow come from an endpoint, or go to it. */
export function usesEndpoint(
  { account_id, source, destination_uri }: Flow,
  endpointId: string,
  endpoints: readonly Endpoint[],
): boolean {
  return [source.uri, exampleOf(destination_uri)].some((uri) =>
    isOnEndpoint(uri, endpointId, endpoints, account_id),
  );
}
