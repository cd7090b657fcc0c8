import { isHttpsOrLocal } from '../http-url.ts';
import { PROTOCOL_NAMES } from '../protocols/index.ts';

/** What keeps checkpoints at a URL: a folder of the machine, an endpoint, or a witness. */
export type SinkKind = 'folder' | 'endpoint' | 'witness';

/**
 * Returns the kind of sink that a URL names, such as `file:///folder`, `s3://archive/checkpoints/` or
 * `https://...` of a witness. Null if no sink can have this URL.
 */
export function sinkKindOf(text: string): SinkKind | null {
  const url = URL.parse(text);
  if (url === null) return null;
  const { protocol, host, password, pathname, search, hash } = url;
  if (protocol === 'file:') return host === '' && pathname.length > 1 ? 'folder' : null;
  if (PROTOCOL_NAMES.some((name) => protocol === `${name}:`))
    return host !== '' && `${password}${search}${hash}` === '' ? 'endpoint' : null;
  return isHttpsOrLocal(url) ? 'witness' : null;
}
