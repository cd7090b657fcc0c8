/** Largest body of a request, in bytes. */
export const BODY_LIMIT = 64 * 1024;

/** Largest body of a new batch. All of its items fit into one append of either event store. */
export const BATCH_BODY_LIMIT = 512 * 1024;
