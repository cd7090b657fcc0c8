import { fieldError } from '../errors.ts';
import { type After, removesSource } from '../transfers/after.ts';
import { assertApart } from '../transfers/after-places.ts';
import type { TransferCreated } from '../transfers/transfer.ts';
import { fileName, matchEndpoint, parseTransferUri, placesOf } from '../uri.ts';
import { shareFiles } from './audience.ts';
import type { Endpoint } from './endpoint.ts';

export type Route = Pick<TransferCreated, 'source_endpoint_id' | 'destination_endpoint_id'>;

interface Asked {
  source_uri: string;
  destination_uri: string;
  after?: After | null | undefined;
}

/** What is wrong with a URI that no endpoint matches. */
export const NOT_ON_AN_ENDPOINT =
  'must be on a configured endpoint: no endpoint that this account may use has this protocol, ' +
  'host and base path';

/**
 * Returns the endpoints of a transfer. Throws:
 *
 * - `endpoint_not_configured` if no endpoint that the account may use matches the destination
 * - `validation_failed` if a URI is invalid, or source and destination are the same file
 */
export function routeOf(
  { source_uri, destination_uri, after }: Asked,
  endpoints: readonly Endpoint[],
  accountId: string,
): Route {
  const sourceUri = parseTransferUri(source_uri, 'source_uri');
  const places = placesOf(source_uri, destination_uri);
  const { destination } = places;
  const destinationUri = parseTransferUri(destination, 'destination_uri');
  if (fileName(destinationUri) === '')
    throw fieldError('destination_uri', 'must name a path on the endpoint');
  const source = matchEndpoint(sourceUri, endpoints, accountId);
  const target = matchEndpoint(destinationUri, endpoints, accountId);
  if (!target) {
    throw fieldError('destination_uri', NOT_ON_AN_ENDPOINT, 'endpoint_not_configured');
  }
  const isItself =
    source_uri === destination ||
    (source?.endpoint === target.endpoint && source.path === target.path);
  // By two endpoints that lead to one place, it is harmless while the source stays.
  if (isItself || (removesSource(after) && isSameFile(source, target)))
    throw fieldError('destination_uri', 'must not be the source itself');
  const match = (uri: string) => matchEndpoint(parseTransferUri(uri, 'uri'), endpoints, accountId);
  if (after)
    assertApart(
      places,
      after,
      (uri, other) => uri === other || isSameFile(match(uri), match(other)),
    );
  return {
    source_endpoint_id: source?.endpoint.endpoint_id ?? null,
    destination_endpoint_id: target.endpoint.endpoint_id,
  };
}

type Matched = ReturnType<typeof matchEndpoint<Endpoint>>;

function isSameFile(one: Matched, other: Matched): boolean {
  if (one === null || one.path !== other?.path) return false;
  return shareFiles(one.endpoint.settings, other.endpoint.settings);
}
