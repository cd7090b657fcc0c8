import { call } from './client.ts';
import { useLoad } from './use-load.ts';

/**
 * Returns the names of the API keys by id: empty until they are loaded, and without the permission
 * to see keys.
 */
export function useKeyNames(): ReadonlyMap<string, string> {
  const { data } = useLoad((signal) => call('GET /v1/keys', { signal }), []);
  return new Map(data?.data.map(({ id, name }) => [id, name]));
}
