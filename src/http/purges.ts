import type { Purges } from '../processes/housekeeping/housekeeping.ts';
import { removeOldWindows } from './admission/rate-limit.ts';
import { recordsOfSessions, removeOldSessions } from './auth/sessions.ts';
import { removeExpiredKeys } from './idempotency/table.ts';

/** What housekeeping removes of the tables that the API owns. */
export const API_PURGES: Purges = {
  idempotency_keys: removeExpiredKeys,
  console_sessions: removeOldSessions,
  rate_windows: removeOldWindows,
};

/** Returns which vault records the tables of the API name. */
export const API_RECORDS = recordsOfSessions;
