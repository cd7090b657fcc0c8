import postgres from 'postgres';
import { ARRAY_TYPES } from './array-types.ts';
import { DatabaseUrlError, HOW_TO_WRITE, readDatabaseUrl } from './database-url.ts';
import { Parts } from './long-texts.ts';

// The unpatched driver ends the process or loses answers when a connection is lost. The number is
// that of scripts/patch-postgres.ts.
const REPAIR = 7;
if (!('lostConnections' in postgres && postgres.lostConnections === REPAIR))
  throw new Error(
    'The driver `postgres` in node_modules lacks the changes that Waybill needs. ' +
      'Run `bin/node scripts/set-up.ts`: it applies them, or says why it cannot.',
  );

type Types = { bigint: bigint; timestamptz: string; text: string | Parts } & Record<
  keyof typeof ARRAY_TYPES,
  unknown
>;

/** A pool of connections, with `begin` for transactions. */
export type Sql = postgres.Sql<Types>;
/** One connection inside a transaction. */
export type Transaction = postgres.TransactionSql<Types>;
/** What a query can be sent through: a pool or a transaction. */
export type Queryable = postgres.ISql<Types>;
/** A part of a statement. */
export type Fragment = postgres.Fragment;

export interface ConnectOptions {
  /** Maximum number of connections; 10 by default. */
  max?: number;
  /** Shown in `pg_stat_activity`; `waybill` by default. */
  applicationName?: string;
  /** Settings of every session, such as `statement_timeout` in milliseconds; none by default. */
  settings?: Record<string, string | number>;
  /**
   * How long a query may wait for the next byte of its answer, in milliseconds; 60,000 by default.
   * Then its connection counts as lost. A frozen server, or a network that drops packets, closes no
   * connection. Null means no limit, for statements that take minutes. A statement waits for a lock
   * half as long: its session would stay in Postgres after its connection counts as lost, and with
   * each repetition one more, until Postgres accepts none.
   */
  answerWithinMs?: number | null;
  /**
   * Keeps connections open until one side has to close them. Without it, idle and old ones are
   * replaced.
   */
  keepOpen?: boolean;
  /**
   * The pool whose connection listens for this one too. A NOTIFY wakes every connection that
   * listens, whichever channel it listens to.
   */
  listener?: Sql;
  /** Called for every connection of the pool that has closed, whatever the reason. */
  onClose?: () => void;
}

const ANSWER_WITHIN_MS = 60_000;
/**
 * A role or a database may have other defaults. Without `array_nulls`, a null in an array is the text
 * `NULL`. With fewer digits, large counts are rounded, and the tree seems shorter than what its
 * checkpoints sign. In a stricter isolation, statements of busy processes fail and are repeated.
 */
const OWN_DEFAULTS = {
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  array_nulls: 'on',
  extra_float_digits: 1,
  default_transaction_isolation: 'read committed',
} as const;
const RECONNECT_DELAY_MS = { first: 20, longest: 1_000 };

const timestamptz = {
  to: 1184,
  from: [1184],
  serialize: (value: Date | string) => (value instanceof Date ? value.toISOString() : value),
  parse: (text: string) => new Date(text).toISOString(),
};

/**
 * The driver alone reads `\x00ff` only. A database or a user may have `bytea_output = escape` as
 * default, and a pooler may not let a session choose.
 */
const bytea = {
  to: 17,
  from: [17],
  serialize: (value: Uint8Array) => `\\x${Buffer.from(value).toString('hex')}`,
  parse: (value: string) =>
    value.startsWith('\\x') ? Buffer.from(value.slice(2), 'hex') : unescaped(value),
};

/** Reads bytes in which `\\` is a backslash, and `\377` the byte of that octal number. */
function unescaped(value: string): Buffer {
  const latin1 = value.replace(/\\(\\|[0-7]{3})/g, (_, escaped: string) =>
    escaped === '\\' ? '\\' : String.fromCharCode(Number.parseInt(escaped, 8)),
  );
  return Buffer.from(latin1, 'latin1');
}

const text = {
  to: 25,
  from: [],
  serialize: (value: unknown) => (value instanceof Parts ? value : String(value)),
  parse: (value: string): string | Parts => value,
};

/**
 * Opens a pool. The first query opens the first connection. Throws DatabaseUrlError if the URL
 * cannot be read, or says about TLS what has no meaning.
 *
 * - `bigint` columns are JavaScript bigints.
 * - `timestamptz` columns are ISO 8601 strings in UTC with milliseconds,
 *   `2026-01-31T09:30:00.000Z`. Parameters may be such strings or Dates.
 * - Pass a JSON parameter as `sql.json(value)`. Pass a text that is JSON already as
 *   `${text}::text::jsonb`, because the driver would encode it a second time.
 * - An array parameter names its type, `${ids}::text[]`: text, integer, bigint or timestamptz. Pass
 *   the bigints of an array as text.
 */
export function connect(url: string, options: ConnectOptions = {}): Sql {
  const {
    max = 10,
    applicationName = 'waybill',
    settings = {},
    answerWithinMs = ANSWER_WITHIN_MS,
    keepOpen = false,
    listener,
    onClose = () => {},
  } = options;
  const notInTheDriversTypes = {
    answer_timeout: answerWithinMs === null ? null : answerWithinMs / 1_000,
  };
  const { url: address, tls } = readDatabaseUrl(url);
  const sql = readable(() =>
    postgres(address, {
      ...notInTheDriversTypes,
      ssl: tls,
      max,
      connect_timeout: 10,
      backoff: (failures) => reconnectDelayMs(failures) / 1_000,
      // Probes idle connections, so that those whose other end has vanished are gone after 15 s. New
      // calls then use new connections.
      keep_alive: 5,
      ...(keepOpen ? { max_lifetime: null } : { idle_timeout: 300 }),
      fetch_types: false,
      types: { bigint: postgres.BigInt, timestamptz, bytea, text, ...ARRAY_TYPES },
      connection: {
        application_name: applicationName,
        ...OWN_DEFAULTS,
        idle_in_transaction_session_timeout: 60_000,
        ...(answerWithinMs === null ? {} : { lock_timeout: Math.ceil(answerWithinMs / 2) }),
        ...settings,
      },
      onnotice: () => {},
      onclose: onClose,
    }),
  );
  return listener ? Object.assign(sql, { listen: listener.listen }) : sql;
}

/** Throws DatabaseUrlError if the driver cannot read the URL. Its messages repeat no part of it. */
function readable<Pool>(open: () => Pool): Pool {
  try {
    return open();
  } catch (error) {
    throw new DatabaseUrlError(
      `DATABASE_URL cannot be read (${(error as Error).message}): ${HOW_TO_WRITE}`,
    );
  }
}

/**
 * Returns the delay before a reconnect. A pool counts the failures of all its connections together,
 * and its 20 connections fail at once. So the delay must stay short.
 */
function reconnectDelayMs(failures: number): number {
  const { first, longest } = RECONNECT_DELAY_MS;
  return Math.min(first * 2 ** failures, longest) * (0.5 + Math.random() / 2);
}
