import { type FileInfo, parseList } from 'basic-ftp';
import { MAX_LISTING_BYTES } from '../folder-entries.ts';
import type { FileEntry } from '../port.ts';
import type { Connection } from './connection.ts';
import { fileError, nullIfRefused } from './errors.ts';
import type { Pool } from './pool.ts';

/**
 * Returns all entries of a folder. Times are null if the server has no MLSD: times of LIST lack a
 * year or a time zone.
 */
export async function list(pool: Pool, path: string, signal: AbortSignal): Promise<FileEntry[]> {
  try {
    const entries = await pool.use(signal, 'open', (connection) => entriesOf(connection, path));
    return entries.map(({ name, isFile, isDirectory, size, modifiedAt }) => ({
      name,
      type: isFile ? 'file' : isDirectory ? 'directory' : 'other',
      size: isFile ? size : null,
      modified_at: modifiedAt?.toISOString() ?? null,
    }));
  } catch (error) {
    throw fileError(error, 'open', path);
  }
}

/**
 * Lists a folder after changing into it. Some servers would read special characters in a path
 * argument as patterns or options. With `marker`, returns only entries whose lines have that text:
 * the folder may have any number of others.
 */
export async function entriesOf(
  connection: Connection,
  path: string,
  marker?: string,
): Promise<FileInfo[]> {
  const read = (command: string, entry: RegExp) =>
    textOf(connection, command, marker === undefined ? wholeText() : linesWith(marker, entry));
  await connection.request(`CWD ${path}`);
  // Some servers announce MLSD and refuse it.
  const facts = connection.features.has('MLST')
    ? await read('MLSD', MLSD_ENTRY).then((text) => text ?? '', nullIfRefused)
    : null;
  if (facts !== null) return parseList(withoutOddTimes(withoutBreaks(facts, MLSD_ENTRY)));
  const all = await read('LIST -a', LIST_ENTRY).catch(nullIfRefused);
  // Some servers take `-a` for a name: they refuse it, or list nothing.
  const listed = all ?? (await read('LIST', LIST_ENTRY)) ?? '';
  return parseList(withoutBreaks(listed, LIST_ENTRY));
}

/** How a line of MLSD begins: with facts, and one space before the name (RFC 3659, section 7.2). */
const MLSD_ENTRY = /^([^\s;=]+=[^;]*;)+ /;
/** How a line of LIST begins, in the forms of Unix and DOS. */
const LIST_ENTRY = /^[\s\d]*[bcdelfmpSs-][r-][w-]|^\d{2}[-/]\d{2}[-/]\d{2}|^total/;

/**
 * Replaces line breaks in names by U+FFFD. Servers send them as they are: a part of the name would
 * pass for the name of another file, and one that is no entry would fail the whole listing.
 */
function withoutBreaks(listing: string, entry: RegExp): string {
  const entries: string[] = [];
  // A name that ends in a line break would leave an empty line.
  const whole = listing.replace(/(?<!\r)\n(?=\r\n)/g, '\uFFFD');
  for (const line of whole.split(/\r?\n/).filter(Boolean)) {
    if (entries.length === 0 || entry.test(line)) entries.push(line);
    else entries.push(`${entries.pop()}\uFFFD${line}`);
  }
  return entries.map((line) => line.replace(/[\r\u2028\u2029]/g, '\uFFFD')).join('\n');
}

/** Leaves out each time of MLSD that is none: it would fail the whole listing. */
function withoutOddTimes(listing: string): string {
  return listing.replace(/^(?:[^\s;=]+=[^;\n]*;)+ /gm, (facts) =>
    facts.replace(/\bmodify=(?!\d{14}(?:\.\d+)?;)[^;]*;/gi, 'modify=;'),
  );
}

/** The longest line of a listing whose lines are read one by one. */
const MAX_LINE_BYTES = 1 << 20;

/** Keeps a listing, or some of it, while it arrives. */
interface Received {
  /** Returns how many bytes it keeps, or infinity if a line is too long. */
  add(piece: Buffer): number;
  text(): string;
}

function wholeText(): Received {
  const pieces: Buffer[] = [];
  let bytes = 0;
  return {
    add(piece) {
      pieces.push(piece);
      bytes += piece.length;
      return bytes;
    },
    text: () => Buffer.concat(pieces).toString(),
  };
}

/** Keeps the lines that begin an entry and have the marker in them. */
function linesWith(marker: string, entry: RegExp): Received {
  let kept = '';
  let rest: Buffer = Buffer.alloc(0);

  function keep(lines: Buffer): void {
    if (!lines.includes(marker)) return;
    for (const line of lines.toString().split(/\r?\n/))
      if (line.includes(marker) && entry.test(line)) kept += `${line}\n`;
  }

  return {
    add(piece) {
      const received = Buffer.concat([rest, piece]);
      const end = received.lastIndexOf('\n') + 1;
      keep(received.subarray(0, end));
      rest = received.subarray(end);
      return rest.length > MAX_LINE_BYTES ? Number.POSITIVE_INFINITY : kept.length;
    },
    text() {
      keep(rest);
      return kept;
    },
  };
}

/** Returns what is kept of a listing. Null if the server sends none. */
async function textOf(
  connection: Connection,
  command: string,
  listing: Received,
): Promise<string | null> {
  const { socket, expectData, ended, broken } = await connection.openDataConnection([command]);
  const received = expectData();
  let bytes = 0;
  try {
    for await (const piece of socket as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (listing.add(piece) > MAX_LISTING_BYTES)
        connection.lose(new Error('the listing is too long'));
    }
  } catch (error) {
    // The server gives the reason for a broken data connection on the control connection.
    await connection.inTime(Promise.race([ended, broken]));
    throw error;
  } finally {
    received();
  }
  await connection.inTime(ended);
  return bytes > 0 ? listing.text() : null;
}
