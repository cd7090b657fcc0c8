import type { Sql } from './connect.ts';

/**
 * Listens on a channel until the returned function is called. Never throws and never rejects: the
 * driver listens again when its connection is back, even if the first try failed. It calls
 * `onListen` each time that listening begins. Notifications may have been lost before, so the
 * caller reads the tables then.
 */
export function listen(
  sql: Sql,
  channel: string,
  onNotify: (payload: string) => void,
  onListen: () => void = () => undefined,
): () => void {
  let open = true;
  const listening = sql.listen(
    channel,
    (payload) => {
      if (open) onNotify(payload);
    },
    () => {
      if (open) onListen();
    },
  );
  listening.catch(() => undefined);
  return () => {
    open = false;
    // Not awaited: a silent connection must not delay the shutdown. It ends with its pool.
    listening.then(({ unlisten }) => unlisten()).catch(() => undefined);
  };
}
