/** Then this mover may find a connection. Its transfers wait a minute for one. */
const LEAVE_MS = 120_000;

/**
 * Endpoints that a mover leaves to other movers, because they have all connections that the server
 * accepts. A transfer that it claimed there would wait, and another mover could move it.
 */
export interface LeftToOthers {
  add(endpointId: string): void;
  /** Returns the ids of those that it still leaves to others. */
  now(): string[];
}

export function createLeftToOthers(): LeftToOthers {
  const until = new Map<string, number>();
  return {
    add: (endpointId) => void until.set(endpointId, performance.now() + LEAVE_MS),
    now() {
      for (const [id, end] of until) if (end < performance.now()) until.delete(id);
      return [...until.keys()];
    },
  };
}
