import { basename, dirname } from 'node:path/posix';
import { FTPError } from 'basic-ftp';
import { toFtp, type UnixTime } from '../modification-time.ts';
import type { FileIdentity } from '../port.ts';
import type { Connection } from './connection.ts';
import { isRefusal, NOT_ALLOWED, nullIfRefused } from './errors.ts';
import { entriesOf } from './listing.ts';

export interface Stat extends FileIdentity {
  type: 'file' | 'directory';
}

/**
 * Returns what a path refers to, by MLST (RFC 3659), or by SIZE, MDTM and CWD. Throws the server's
 * refusal if the path does not exist.
 */
export async function statOf(connection: Connection, path: string): Promise<Stat> {
  const answer = connection.features.has('MLST')
    ? await connection.request(`MLST ${path}`).catch(nullIfRefused)
    : null;
  const facts = answer ? factsOf(answer.message) : {};
  const { type, size, modify } = facts;
  if (type === 'dir' || type === 'cdir') return { type: 'directory', size: 0, version: null };
  if (type === 'file' && Number(size) > 0 && !mayBeLink(facts))
    return { type: 'file', size: Number(size), version: modify ?? null };
  // This is a link, a pipe (an empty file to ProFTPD's MLST), a server without MLST, or a missing
  // path. For a missing path, SIZE has the clearer reply.
  try {
    return {
      type: 'file',
      size: await sizeOf(connection, path),
      version: await modificationOf(connection, path),
    };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const refusal = await refusalOf(connection, `CWD ${path}`);
    if (refusal === null) return { type: 'directory', size: 0, version: null };
    // Only here does Pure-FTPd say whether the path is missing or the user may not see it.
    const words = new Set([error.message, refusal.message]);
    throw new FTPError({ code: error.code, message: [...words].join('\n') });
  }
}

/** Returns the result of `statOf`; null if the server refuses, as it does for a missing path. */
export function existing(connection: Connection, path: string): Promise<Stat | null> {
  return statOf(connection, path).catch(nullIfRefused);
}

/** Returns the size of a file, by SIZE or, on a server without it, by a listing of its folder. */
export async function sizeOf(connection: Connection, path: string): Promise<number> {
  const reply = await connection.request(`SIZE ${path}`).catch(async (error) => {
    if (!lacksSize(connection, error)) throw error;
    return (await listedSize(connection, path)) ?? Promise.reject(error);
  });
  if (typeof reply === 'number') return reply;
  const size = Number(/^213 +(\d+)/.exec(reply.message)?.[1]);
  if (Number.isSafeInteger(size)) return size;
  throw new Error(`the server names no size: ${reply.message}`);
}

/** Returns whether the server may have refused the command, whatever the path. */
function lacksSize({ features }: Connection, error: unknown): boolean {
  if (!isRefusal(error)) return false;
  return error.code !== 550 || !features.has('SIZE') || NOT_ALLOWED.test(error.message);
}

/**
 * Returns null if the server refuses to list the folder, or if the path is no file. Throws a
 * refusal if the folder lacks it.
 */
async function listedSize(connection: Connection, path: string): Promise<number | null> {
  const entries = await entriesOf(connection, dirname(path)).catch(nullIfRefused);
  const found = entries?.find(({ name }) => name === basename(path));
  if (entries && !found) throw new FTPError({ code: 550, message: '550 No such file is listed' });
  return found?.isFile ? found.size : null;
}

/**
 * Sets the modification time of a file by MFMT, in whole seconds. Resolves with the reason if that
 * is not possible, or null.
 */
export async function setTime(
  connection: Connection,
  path: string,
  time: UnixTime,
): Promise<string | null> {
  if (!connection.features.has('MFMT')) return 'The server does not announce MFMT';
  return (await refusalOf(connection, `MFMT ${toFtp(time)} ${path}`))?.message ?? null;
}

/**
 * Gives a finished part the permissions of the file that it replaces, if the server shows and sets
 * them. Its owner may read and write it, to resume it.
 */
export async function keepPermissions(
  connection: Connection,
  part: string,
  path: string,
): Promise<void> {
  if (!/unix\.mode/i.test(connection.features.get('MLST') ?? '')) return;
  const answer = await connection.request(`MLST ${path}`).catch(nullIfRefused);
  const facts = answer ? factsOf(answer.message) : {};
  const { type, size, 'unix.mode': mode } = facts;
  if (type !== 'file' || !/^[0-7]+$/.test(mode ?? '')) return;
  if (mayBeLink(facts) && (await existing(connection, path))?.size !== Number(size)) return;
  const kept = (Number.parseInt(mode as string, 8) & 0o777) | 0o600;
  await connection.request(`SITE CHMOD ${kept.toString(8)} ${part}`).catch(nullIfRefused);
}

/** The longest path that a link can hold on Linux. */
const LONGEST_LINK = 4_096;

/**
 * Returns whether the facts of a file may be those of a link to it. ProFTPD gives the length and the
 * permissions of the link, and calls it a file. Everybody may execute a link.
 */
function mayBeLink({ size, 'unix.mode': mode = '' }: Record<string, string>): boolean {
  return Number(size) <= LONGEST_LINK && (Number.parseInt(mode, 8) & 0o111) === 0o111;
}

export async function isFolder(connection: Connection, path: string): Promise<boolean> {
  return (await refusalOf(connection, `CWD ${path}`)) === null;
}

/** How a line of `ls -l` begins for a device, pipe or socket. */
const SPECIAL = /^ ?[bcps][r-][w-]/;

/**
 * Returns whether the server says that a path is a device, pipe or socket. MLST of ProFTPD calls
 * it an empty file. Do not ask this of a folder: the reply would have all of its entries.
 */
export async function isSpecial(connection: Connection, path: string): Promise<boolean> {
  const reply = await connection.request(`STAT ${path}`).catch(nullIfRefused);
  // A server may take characters in the path for a pattern, and show other files.
  const isOf = (line: string) => [path, basename(path)].some((name) => line.endsWith(` ${name}`));
  return (reply?.message ?? '').split(/\r?\n/).some((line) => SPECIAL.test(line) && isOf(line));
}

/** Sends a command and returns the server's refusal; null if it accepts the command. */
export async function refusalOf(connection: Connection, command: string): Promise<FTPError | null> {
  try {
    await connection.request(command);
    return null;
  } catch (error) {
    if (isRefusal(error)) return error;
    throw error;
  }
}

async function modificationOf(connection: Connection, path: string): Promise<string | null> {
  const reply = await connection.request(`MDTM ${path}`).catch(nullIfRefused);
  return reply && (/^213 +(\S+)/.exec(reply.message)?.[1] ?? null);
}

function factsOf(reply: string): Record<string, string> {
  const facts = /^ ?((?:[^;=\s]+=[^;]*;)+) /m.exec(reply)?.[1] ?? '';
  return Object.fromEntries(
    Array.from(facts.matchAll(/([^;=]+)=([^;]*);/g), ([, name = '', value = '']) => [
      name.toLowerCase(),
      value,
    ]),
  );
}
