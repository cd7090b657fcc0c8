import type { Endpoint } from '../../api/operations.ts';

/** Where a file is: below an endpoint, or, where that is null, a whole URI. */
export type Place = { endpoint: Endpoint; path: string } | { endpoint: null; path: string };

/** The URI by the endpoint's name. The path is as people write it, with nothing encoded. */
export function uriOf({ endpoint, path }: Place): string {
  if (endpoint === null) return path.trim();
  const segments = path.replace(/^\/+/, '').split('/');
  return `${endpoint.protocol}://${endpoint.name}/${segments.map(encodeURIComponent).join('/')}`;
}

/** What a URI means, as far as it names an endpoint. */
export function placeOf(uri: string, endpoints: Endpoint[]): Place {
  const [, protocol, name, path = ''] = /^(\w+):\/\/([^/]*)(.*)$/.exec(uri) ?? [];
  const endpoint = endpoints.find((known) => known.name === name && known.protocol === protocol);
  return endpoint ? { endpoint, path: decodeURIComponent(path) } : { endpoint: null, path: uri };
}
