import type { Endpoint } from '../../../api/api-types.ts';

/** The place of a file: a path below an endpoint, or a whole URI if `endpoint` is null. */
export type Place = { endpoint: Endpoint; path: string } | { endpoint: null; path: string };

/**
 * Returns the place of a form that opens. Null if the user has to choose among several endpoints: a
 * chosen one could be that of another partner.
 */
export function initialPlace(uri: string | undefined, endpoints: Endpoint[]): Place | null {
  if (uri !== undefined) return placeOf(uri, endpoints);
  const [endpoint, other] = endpoints;
  if (other) return null;
  return endpoint ? { endpoint, path: '/' } : { endpoint: null, path: '' };
}

/** Returns the URI with the endpoint's name. The path of a place is not percent-encoded. */
export function uriOf({ endpoint, path }: Place): string {
  if (endpoint === null) return path.trim();
  const segments = path.replace(/^\/+/, '').split('/');
  return `${endpoint.protocol}://${endpoint.name}/${segments.map(encodeURIComponent).join('/')}`;
}

/** Returns the place of a URI: below the endpoint that it names, if one of `endpoints` fits. */
export function placeOf(uri: string, endpoints: Endpoint[]): Place {
  const [, protocol, name, path = ''] = /^(\w+):\/\/([^/]*)(.*)$/.exec(uri) ?? [];
  const endpoint = endpoints.find((known) => known.name === name && known.protocol === protocol);
  return endpoint ? { endpoint, path: decodeURIComponent(path) } : { endpoint: null, path: uri };
}
