import postgres from 'postgres';
import { ARRAY_TYPES } from './array-types.ts';

type Types = { bigint: bigint; timestamptz: string } & Record<keyof typeof ARRAY_TYPES, unknown>;

/** A pool of connections, with `begin` for transactions. */
export type Sql = postgres.Sql<Types>;
/** One connection inside a transaction. */
export type Transaction = postgres.TransactionSql<Types>;
/** What a query can be sent through: a pool or a transaction. */
export type Queryable = postgres.ISql<Types>;

export interface ConnectOptions {
  /** Connections at most; 10 by default. */
  max?: number;
  /** Shown in `pg_stat_activity`; `waybill` by default. */
  applicationName?: string;
  /** Settings of every session, such as `statement_timeout` in milliseconds; none by default. */
  settings?: Record<string, string | number>;
  /** Connections stay open until one side is made to close them. Without it idle and old ones are replaced. */
  keepOpen?: boolean;
  /** Told of every connection of the pool that has closed, whatever the reason. */
  onClose?: () => void;
}

const timestamptz = {
  to: 1184,
  from: [1184],
  serialize: (value: Date | string) => (value instanceof Date ? value.toISOString() : value),
  parse: (text: string) => new Date(text).toISOString(),
};

/**
 * Opens a pool; nothing is dialled before the first query.
 *
 * `bigint` columns are JavaScript bigints. `timestamptz` columns are ISO 8601 strings in UTC with
 * milliseconds, `2026-01-31T09:30:00.000Z`; parameters may be such strings or Dates. A JSON parameter is
 * passed as `sql.json(value)`; a text that is already JSON goes through `${text}::text::jsonb`, for the
 * driver would encode it a second time. An array parameter names its type, `${ids}::text[]`: text, integer,
 * bigint and timestamptz are known; bigints go into one as text.
 */
export function connect(url: string, options: ConnectOptions = {}): Sql {
  const { max = 10, applicationName = 'waybill', settings = {}, keepOpen = false, onClose = () => {} } = options;
  return postgres(url, {
    max,
    connect_timeout: 10,
    // Idle connections whose other end has vanished are gone after a quarter of a minute, and calls go over new ones.
    keep_alive: 5,
    ...(keepOpen ? { max_lifetime: null } : { idle_timeout: 300 }),
    fetch_types: false,
    types: { bigint: postgres.BigInt, timestamptz, ...ARRAY_TYPES },
    connection: {
      application_name: applicationName,
      TimeZone: 'UTC',
      DateStyle: 'ISO',
      idle_in_transaction_session_timeout: 60_000,
      ...settings,
    },
    onnotice: () => {},
    onclose: onClose,
  });
}
