import type { EndpointRecord } from '../../evidence.ts';
import type { Folded } from '../log/contents.ts';
import type { Fields } from '../log/event.ts';
import type { CatalogState } from '../log/fold-catalog.ts';

/** A file of an endpoint: its path below the endpoint's base, without a leading slash. */
export interface Place {
  endpoint: string;
  path: string;
}

/** Turns URIs and the paths of the evidence into places. */
export interface Places {
  ofPath(endpoint: string, path: string): Place;
  /** `endpointId`: the endpoint that the service matched, if it matched one. */
  ofUri(uri: string, endpointId: string | null): Place;
}

export function createPlaces(
  records: EndpointRecord[],
  configured: Map<string, Folded<CatalogState>>,
): Places {
  const named = new Set(records.map(({ name }) => name));
  const ofPath = (endpoint: string, path: string): Place => ({
    endpoint,
    path: path.replace(/^\/+/, ''),
  });

  return {
    ofPath,
    ofUri(uri, endpointId) {
      const [, authority = '', path = ''] = /^[a-z0-9]+:\/\/([^/]*)(.*)$/i.exec(uri) ?? [];
      const decoded = decodeURIComponent(path);
      const name = authority.toLowerCase();
      const state = endpointId === null ? undefined : configured.get(endpointId)?.state;
      if (named.has(name) || state === undefined) return ofPath(name, decoded);
      // A URI that names the host has the server's own path.
      return ofPath(String(state.name), below(decoded, (state.settings ?? {}) as Fields));
    },
  };
}

function below(path: string, settings: Fields): string {
  const container = settings.container === undefined ? '' : `/${settings.container}`;
  const base = String(settings.base_path ?? settings.prefix ?? '').replace(/^\/+|\/+$/g, '');
  const start = `${container}${base === '' ? '' : `/${base}`}/`;
  return path.startsWith(start) ? path.slice(start.length) : path;
}

export function keyOf({ endpoint, path }: Place): string {
  return `${endpoint}/${path}`;
}
