import type { Stats } from 'ssh2';
import { abortable } from '../abort.ts';
import { type UnixTime, wholeSeconds } from '../modification-time.ts';
import type { Names } from '../names.ts';
import { onPart } from '../publish.ts';
import { isRefusal, nullIfRefused } from './errors.ts';
import type { Connection } from './session.ts';

/** An open part whose bytes are all written. */
export interface WrittenPart {
  connection: Connection;
  /** For requests that find the part by its name. */
  names: Names;
  part: string;
  handle: Buffer;
  /** The bytes that were written. */
  size: number;
  modifiedAt: UnixTime | undefined;
  /** How many times the time limit of a request the flush may take. */
  stalls: number;
  /** Closes all handles of the part. */
  closeHandles(): Promise<void>;
  signal: AbortSignal;
}

/** A part that is flushed and closed. */
export interface FlushedPart {
  /** Its size in bytes, as the server says. */
  held: number;
  /** True if it has the modification time that was asked for. */
  timeIsSet: boolean;
}

/** Flushes and closes a part, and sets its time if the server answers in order. */
export async function flushAndClose(written: WrittenPart): Promise<FlushedPart> {
  const { connection, names, part, handle, size, modifiedAt, stalls, closeHandles } = written;
  // A server answers the requests for one handle in order, so they need not wait for each other.
  const flushed = connection.extensions.has('fsync@openssh.com')
    ? connection.request((sftp, done) => sftp.ext_openssh_fsync(handle, done), { stalls })
    : null;
  const measured = connection
    .request<Stats>((sftp, done) => sftp.fstat(handle, done))
    .catch(nullIfRefused);
  const timed =
    modifiedAt && connection.inOrder ? setTime(written, modifiedAt, 'handle') : undefined;
  const [stats, timeRefused] = await Promise.all([measured, timed, flushed, closeHandles()]);
  const timeIsSet = timeRefused === null;
  if (stats?.size === size) return { held: size, timeIsSet };
  // Some servers measure a file, or know its size, only when it is closed.
  const closed = connection.request<Stats>((sftp, done) => sftp.stat(part, done));
  return { held: (await onPart(names, part, 'commit', closed)).size, timeIsSet };
}

/**
 * Sets the time of a part, before its handle is closed or by its name. Resolves with the server's
 * refusal, or null.
 */
export async function setTime(
  { connection, part, handle, signal }: WrittenPart,
  time: UnixTime,
  by: 'handle' | 'name',
): Promise<string | null> {
  const seconds = wholeSeconds(time);
  if (seconds >= 2 ** 32) return 'SFTP has no times after 2106';
  const setting = connection.request((sftp, done) =>
    by === 'handle'
      ? sftp.futimes(handle, seconds, seconds, done)
      : sftp.utimes(part, seconds, seconds, done),
  );
  return abortable(setting, signal, 'commit').then(
    () => null,
    (error) => {
      if (isRefusal(error)) return error.message;
      throw error;
    },
  );
}
