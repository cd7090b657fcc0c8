import type { Purges } from '../processes/housekeeping/housekeeping.ts';
import { removeOldWindows } from './auth/rate-limit.ts';
import { removeExpiredKeys } from './idempotency/table.ts';
import { recordsOfSessions, removeOldSessions } from './session/sessions.ts';

/** What housekeeping removes of the tables that the API owns. */
export const API_PURGES: Purges = {
  idempotency_keys: removeExpiredKeys,
  console_sessions: removeOldSessions,
  rate_windows: removeOldWindows,
};

/** Returns which vault records the tables of the API name. */
export const API_RECORDS = recordsOfSessions;
