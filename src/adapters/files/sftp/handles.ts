import { abortable } from '../abort.ts';
import type { FileStep } from '../port.ts';
import type { Connection } from './session.ts';

/** Opens a file on the server. Throws its refusal. */
export function openHandle(
  connection: Connection,
  path: string,
  flags: 'r' | 'r+' | 'wx',
): Promise<Buffer> {
  return connection.request<Buffer>((sftp, done) => sftp.open(path, flags, done));
}

/** Closes a file. A server limits how many are open on a connection. */
export function closeHandle(connection: Connection, handle: Buffer, stalls = 1): Promise<void> {
  return connection.request((sftp, done) => sftp.close(handle, done), { stalls });
}

/**
 * Opens a file for reading. If the signal aborts first, closes it when the server has opened it:
 * the connection stays open if other files use it.
 */
export async function openToRead(
  connection: Connection,
  path: string,
  signal: AbortSignal,
  step: FileStep,
): Promise<Buffer> {
  const opening = openHandle(connection, path, 'r');
  try {
    return await abortable(opening, signal, step);
  } catch (error) {
    opening.then((handle) => closeHandle(connection, handle)).catch(() => {});
    throw error;
  }
}
