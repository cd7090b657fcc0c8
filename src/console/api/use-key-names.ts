import { useSession } from '../session.tsx';
import { call } from './client.ts';
import { useLoad } from './use-load.ts';

/**
 * Returns the names of the API keys by id: empty until they are loaded, and without the permission
 * to see keys.
 */
export function useKeyNames(): ReadonlyMap<string, string> {
  const maySee = useSession().session.scopes.includes('admin');
  const { data } = useLoad(
    async (signal) => (maySee ? call('GET /v1/keys', { signal }) : null),
    [maySee],
  );
  return new Map(data?.data.map(({ id, name }) => [id, name]));
}
