// Made from src/domain and src/contract by `npm run console-api`.

export const BANDWIDTH_WINDOWS = 20;
export const COUNTED_FAILURES = 10000;
export const COUNTED_TO = 10000;
export const DEFAULT_CONNECTIONS = 16;
export const FAILED_KEPT_DAYS = 30;
export const LAG_COUNTED_TO = 1000;
export const LONGEST_PAGE = 100;
export const METADATA_KEYS = 10;
