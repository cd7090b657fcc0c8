/** A session of the console ends after this time without use. */
export const SESSION_IDLE_MINUTES = 30;

/** A session of the console ends after this time in any case. */
export const SESSION_HOURS = 12;
