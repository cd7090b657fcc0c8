/** How long a repeated request gets the answer of the first, in hours. */
export const IDEMPOTENCY_HOURS = 24;
