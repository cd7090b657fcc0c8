import { CommanderError } from 'commander';
import {
  EventStoreFull,
  EventStoreSettingsError,
  EventStoreUnavailable,
  EventStoreUnusable,
} from '../../adapters/event-store/port.ts';
import { FileError } from '../../adapters/files/port.ts';
import { MasterKeyError } from '../../adapters/master-key.ts';
import { DatabaseUrlError } from '../../adapters/postgres/database-url.ts';
import { EmbeddedPostgresError } from '../../adapters/postgres/embedded/embedded.ts';
import { MigrationError } from '../../adapters/postgres/migrate.ts';
import {
  isDiskFull,
  isPostgresUnavailable,
  isReadOnlySession,
} from '../../adapters/postgres/unavailable.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import { VaultError } from '../../adapters/vault.ts';
import { ConfigError } from '../../config.ts';
import { DomainError, type DomainErrorCode } from '../../domain/errors.ts';
import { KEEP_LOG, LogChanged } from '../../domain/proof/log-changed.ts';
import { isNetworkFailure, TRANSFER_ERRORS } from '../../domain/transfers/errors.ts';
import { WrongLog } from '../../projections/checkpoint.ts';
import { FoldError } from '../../projections/fold.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { OutputClosed, visible } from './output.ts';
import { Stopped } from './terminal.ts';

/** How an error ends the command: with a message on stderr and an exit code. */
export interface Failure {
  /** Null if the code that the command has set stays. */
  exitCode: ExitCode | null;
  /** Null if the message is printed already. */
  message: string | null;
}

const EXIT_OF: Partial<Record<DomainErrorCode, ExitCode>> = {
  validation_failed: EXIT.invalid,
  invalid_json: EXIT.invalid,
  invalid_parameter: EXIT.invalid,
  unknown_field: EXIT.invalid,
  endpoint_not_configured: EXIT.invalid,
  credentials_in_uri: EXIT.invalid,
  not_found: EXIT.notFound,
  batch_not_cancellable: EXIT.refused,
  batch_not_retryable: EXIT.refused,
  transfer_not_cancellable: EXIT.refused,
  transfer_not_retryable: EXIT.refused,
  priority_not_changeable: EXIT.refused,
  receipt_not_ready: EXIT.refused,
  endpoint_in_use: EXIT.refused,
  limit_reached: EXIT.refused,
  webhook_disabled: EXIT.refused,
  unavailable: EXIT.unavailable,
};

export function failureOf(error: unknown): Failure {
  if (error instanceof OutputClosed) return { exitCode: null, message: null };
  // Commander has written its own message already.
  if (error instanceof CommanderError)
    return { exitCode: error.exitCode === 0 ? EXIT.done : EXIT.invalid, message: null };
  if (error instanceof Stopped) return { exitCode: error.exitCode, message: error.message };
  if (error instanceof DomainError)
    return { exitCode: EXIT_OF[error.code] ?? EXIT.failed, message: withFields(error) };
  if (
    error instanceof ConfigError ||
    error instanceof MasterKeyError ||
    error instanceof DatabaseUrlError ||
    error instanceof EventStoreSettingsError
  )
    return { exitCode: EXIT.invalid, message: error.message };
  if (error instanceof FileError) {
    const exitCode = isNetworkFailure(error.code) ? EXIT.unavailable : EXIT.failed;
    return {
      exitCode,
      message: `${error.message} (${error.shownCode})\n  ${TRANSFER_ERRORS[error.shownCode].advice}`,
    };
  }
  if (error instanceof EventStoreFull)
    return { exitCode: EXIT.unavailable, message: `${error.message}. ${MAKE_ROOM}` };
  if (error instanceof EventStoreUnavailable || error instanceof EmbeddedPostgresError) {
    return { exitCode: EXIT.unavailable, message: error.message };
  }
  if (error instanceof FoldError)
    return {
      exitCode: EXIT.failed,
      message:
        `${error.message}. The log was changed, or is damaged. ${KEEP_LOG}. What was changed: ` +
        'waybill audit verify --checkpoint FILE',
    };
  if (error instanceof MigrationError && isStoreUnavailable(error.cause))
    return { exitCode: EXIT.unavailable, message: error.message };
  if (
    error instanceof EventStoreUnusable ||
    error instanceof MigrationError ||
    error instanceof VaultError ||
    error instanceof LogChanged ||
    error instanceof WrongLog
  ) {
    return { exitCode: EXIT.failed, message: error.message };
  }
  return fromSystem(error as NodeJS.ErrnoException & { port?: number; address?: string });
}

function withFields({ message, details }: DomainError): string {
  const fields = (details.errors ?? []).map(
    (error) => `  ${visible(`${error.field}: ${error.message}`)}`,
  );
  const repeats = details.errors?.length === 1 && details.errors[0]?.message === message;
  return (repeats ? fields.map((line) => line.trim()) : [message, ...fields]).join('\n');
}

function fromSystem(error: NodeJS.ErrnoException & { port?: number; address?: string }): Failure {
  const code = error.code ?? '';
  if (code === 'EADDRINUSE' || (code === 'EACCES' && error.syscall === 'listen')) {
    const why =
      code === 'EADDRINUSE' ? 'is in use by another program' : 'is not allowed for this user';
    return {
      exitCode: EXIT.failed,
      message:
        `Port ${error.port} of ${error.address} ${why}. Set WAYBILL_PORT to another port, or to ` +
        '0 for any free port.',
    };
  }
  if (isDiskFull(error)) {
    return {
      exitCode: EXIT.unavailable,
      message: `The disk of Postgres is full: ${error.message}. ${MAKE_ROOM}`,
    };
  }
  if (code === NO_RIGHT) {
    return {
      exitCode: EXIT.failed,
      message:
        `Postgres rejects this: ${error.message}. The user of DATABASE_URL must own the database, ` +
        'or have the right CREATE on it and own the tables of Waybill.',
    };
  }
  // Node names the path of a folder only if it fails to open it, not to read it.
  const path = error.path ?? (code === 'EISDIR' ? 'A file of this command' : undefined);
  const wrong = FILE_FAULTS[code];
  if (wrong !== undefined && path !== undefined && !error.syscall?.startsWith('spawn'))
    return { exitCode: EXIT.invalid, message: `${path} ${wrong}` };
  if (isStoreUnavailable(error) || NOT_REACHED.test(code))
    return { exitCode: EXIT.unavailable, message: `${faultOfPostgres(error)}. ${adviceOn(error)}` };
  if (code === 'ENOSPC') {
    const [written, advice] = error.path
      ? [error.path, MAKE_ROOM]
      : ['A file or the output', LOOK_FIRST];
    return {
      exitCode: EXIT.failed,
      message: `${written} cannot be written: its disk is full. ${advice}`,
    };
  }
  // The system rejects what the user has named, such as an address.
  if (error.syscall !== undefined || code === 'ERR_FS_FILE_TOO_LARGE')
    return { exitCode: EXIT.failed, message: error.message };
  return {
    exitCode: EXIT.failed,
    message: `This is an error in Waybill. Report it with these lines:\n${error.stack ?? error}`,
  };
}

/** The faults of a file that the user has named. */
const FILE_FAULTS: Partial<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist: a part of its path is not a folder',
  EISDIR: 'is a folder, not a file',
  EACCES: 'is not accessible to this user',
  EROFS: 'cannot be written: its file system is read-only. Mount it so that it can be written',
};

const MAKE_ROOM = 'Make room, then run the command again.';
/** The output may be that of a change, such as a new key. */
const LOOK_FIRST =
  'Make room. If the command changes something, it may have taken effect: look before you ' +
  'repeat it.';
const TOO_MANY_CONNECTIONS = '53300';
const NO_RIGHT = '42501';
/** SQLSTATE of a statement that took too long, or that an administrator cancelled. */
const STATEMENT_ENDED = '57014';
/** SQLSTATE classes 28 (sign-in), 3D (no such database) and 57P (shutdown). */
const NOT_REACHED = /^(28\w|3D\w|57P)\w{2}$/;

/** Returns false for a statement that a Postgres which runs has rejected, such as a deadlock. */
function isAway(error: NodeJS.ErrnoException): boolean {
  return isPostgresUnavailable(error) || NOT_REACHED.test(error.code ?? '');
}

function faultOfPostgres(error: NodeJS.ErrnoException): string {
  const { message } = error;
  if (isReadOnlySession(error)) return `Postgres takes no writes: ${message}`;
  return `Postgres ${isAway(error) ? 'is unavailable' : 'could not carry this out'}: ${message}`;
}

function adviceOn(error: NodeJS.ErrnoException): string {
  const { code } = error;
  if (code === TOO_MANY_CONNECTIONS) return 'It has no free connection: raise its max_connections.';
  if (code === STATEMENT_ENDED)
    return 'Run the command again, or raise statement_timeout of the role or the database.';
  if (isReadOnlySession(error))
    return 'It is a standby or set to read-only: check DATABASE_URL, and whether its disk is full.';
  return isAway(error)
    ? 'Check that it runs, and DATABASE_URL.'
    : 'Run the command again in a moment.';
}
