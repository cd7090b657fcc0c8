import type { EventStore } from '../../../src/adapters/event-store/port.ts';

export type Call = 'read' | 'append';

/** Returns the store with a wait before each read and each append, of either kind. */
export function beforeCalls(store: EventStore, wait: (call: Call) => Promise<void>): EventStore {
  const { appendWith } = store;
  return {
    ...store,
    async read(...read) {
      await wait('read');
      return store.read(...read);
    },
    async append(...append) {
      await wait('append');
      return store.append(...append);
    },
    ...(appendWith && {
      async appendWith(...append) {
        await wait('append');
        return appendWith(...append);
      },
    }),
  };
}
