import { basename, dirname, join } from 'node:path/posix';
import { abortable, abortError } from '../abort.ts';
import { asBuffer } from '../as-buffer.ts';
import { asideOf, asidePath, type PartState, partPath, takenOverPath } from '../part-name.ts';
import { type DestinationFile, FileError, type FileStep, type OpenDestination } from '../port.ts';
import { onPart, publish, STALLS_TO_COMMIT } from '../publish.ts';
import { settle } from '../settle.ts';
import { fileError, nullIfRefused } from './errors.ts';
import { causeOf } from './failure-cause.ts';
import { type FlushedPart, flushAndClose, setTime } from './flush-part.ts';
import { closeHandle, openHandle } from './handles.ts';
import { CHUNK_SIZE } from './limits.ts';
import { namesOn } from './names.ts';
import {
  createInPlaceOf,
  createPart,
  openToContinue,
  statOf,
  takeOver,
  tryReopening,
} from './open-part.ts';
import { type Lease, type Pool, SMALL, WHOLE } from './pool.ts';
import { openKnown } from './source.ts';
import { createWriteConnections, wantsSeveral } from './write-connections.ts';

/** More than a write has beside its bytes, and all requests of a flush. */
const REQUEST_BYTES = 4 << 10;

/** Opens a new part file beside the destination, or takes over the part that a predecessor left. */
export async function openDestination(
  pool: Pool,
  path: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const { signal, size } = options;
  const lease = await pool.acquire(size > CHUNK_SIZE ? WHOLE : SMALL, signal);
  try {
    return await abortable(openPart(pool, lease, path, options), signal, 'open');
  } catch (error) {
    const cause = signal.aborted ? null : await causeOf(lease.connection, error, 'open', path);
    if (signal.aborted) lease.abandon();
    else lease.release();
    throw cause ?? fileError(error, 'open', path, 'destination');
  }
}

async function openPart(
  pool: Pool,
  lease: Lease,
  path: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const { connection } = lease;
  const { resume, overwrite, transferId, claimId, opening, size, content, signal } = options;
  const part = partPath(path, transferId, claimId, opening);
  if (resume === null && !overwrite && (await statOf(connection, path))) {
    throw new FileError(
      'destination_exists',
      'open',
      `${path} exists and the endpoint does not overwrite`,
    );
  }
  const opened = (handle: Buffer, resumedFrom: number, held = part) => {
    if (signal.aborted) {
      // No caller would close the file, and the connection stays open if other files use it.
      closeHandle(connection, handle).catch(() => {});
      throw abortError(signal, 'open');
    }
    return destinationFile(pool, lease, { path, part: held, handle, resumedFrom, options });
  };
  if (resume) {
    const state = resume.state as PartState;
    const theirs = join(dirname(path), state.part);
    const ours = takenOverPath(path, theirs, options);
    const held = await takeOver(connection, theirs, ours);
    const aside = join(dirname(path), asideOf(state));
    await settle(namesOn(connection), aside, ours, path, options);
    const handle =
      held >= resume.bytes && held <= size
        ? await openToContinue(connection, ours, resume.bytes)
        : null;
    if (handle) {
      pool.reopens = true;
      return opened(handle, resume.bytes, ours);
    }
    if (ours !== part) await namesOn(connection).remove(ours).catch(nullIfRefused);
  }
  // Without `overwrite`, a taken name was rejected when the part began.
  const created = await (overwrite
    ? createInPlaceOf(connection, part, path)
    : createPart(connection, part));
  if (content && connection.inOrder && connection.sendsAtOnce(content.length + REQUEST_BYTES)) {
    const file = opened(created, content.length);
    await file.writeWhole(asBuffer(content));
    return file;
  }
  const mustTry = pool.reopens === null && wantsSeveral(connection, size);
  return opened(mustTry ? await tryReopening(pool, connection, part, created) : created, 0);
}

interface Opened {
  path: string;
  part: string;
  handle: Buffer;
  resumedFrom: number;
  options: OpenDestination;
}

function destinationFile(
  pool: Pool,
  lease: Lease,
  { path, part, handle, resumedFrom, options }: Opened,
): DestinationFile & { writeWhole(content: Buffer): Promise<void> } {
  const { connection } = lease;
  const { signal, size, overwrite, modifiedAt, chunkSize = CHUNK_SIZE } = options;
  const stalls = size > CHUNK_SIZE ? STALLS_TO_COMMIT : 1;
  const names = namesOn(connection, stalls);
  const several = pool.reopens === true && wantsSeveral(connection, size);
  const connections = createWriteConnections(
    pool,
    lease,
    handle,
    (other) => openHandle(other, part, 'r+'),
    { ...options, several },
  );
  const writes = new Set<Promise<void>>();
  let handlesClosed: Promise<void> | null = null;
  let finished: Promise<FlushedPart> | null = null;
  let closing: Promise<void> | null = null;
  const abandon = () => connections.abandon();
  const aside = asidePath(path, options);
  const written = {
    connection,
    names,
    part,
    handle,
    size,
    modifiedAt,
    stalls,
    closeHandles,
    signal,
  };
  signal.addEventListener('abort', abandon, { once: true });

  async function fail(error: unknown, step: FileStep): Promise<FileError> {
    if (signal.aborted) return abortError(signal, step);
    const cause = await causeOf(connection, error, step, path);
    return cause ?? fileError(error, step, path, 'destination');
  }

  /**
   * Sends the bytes and all requests of the flush at once. Afterwards, nothing else is left to do
   * than to rename the part.
   */
  async function writeWhole(content: Buffer): Promise<void> {
    const writing = connections.writeAtOnce(content);
    finish().catch(() => {});
    try {
      await writing;
    } catch (error) {
      const failure = await fail(error, 'transfer');
      await end();
      throw failure;
    }
  }

  async function writeAll(offset: number, data: Buffer): Promise<void> {
    try {
      await connections.write(offset, data);
    } catch (error) {
      throw await fail(error, 'transfer');
    }
  }

  function closeHandles(): Promise<void> {
    handlesClosed ??= connections.close(stalls);
    return handlesClosed;
  }

  function finish(): Promise<FlushedPart> {
    finished ??= flushAndClose(written);
    return finished;
  }

  async function end(): Promise<void> {
    signal.removeEventListener('abort', abandon);
    if (writes.size > 0) connections.abandon();
    // A close would overtake the writes that wait for the server's window. The server reuses the
    // handle's number, so these would go into another file. A silent server ends the connection.
    await Promise.allSettled(writes);
    closeHandles().catch(() => {});
    connections.release();
  }

  return {
    parallelWrites: 4,
    inOrder: !several,
    chunkSize: Math.min(chunkSize, CHUNK_SIZE),
    resumedFrom,
    write(offset, data) {
      const writing = writeAll(offset, asBuffer(data)).finally(() => writes.delete(writing));
      writes.add(writing);
      return writing;
    },
    writeWhole,
    async openWritten() {
      try {
        // Servers in front of object stores show a file when it is closed.
        await abortable(finish(), signal, 'verify');
        const borrowed = { connection, release: () => {}, abandon };
        const opening = openKnown(borrowed, part, { size, signal, step: 'verify' });
        return await onPart(names, part, 'verify', opening);
      } catch (error) {
        throw await fail(error, 'verify');
      }
    },
    async showPart() {
      try {
        await abortable(finish(), signal, 'verify');
        return basename(part);
      } catch (error) {
        throw await fail(error, 'verify');
      }
    },
    async resumePoint(bytes) {
      const state: PartState = { part: basename(part), aside: basename(aside) };
      return { bytes, state };
    },
    async commit(whole) {
      try {
        const { held, timeIsSet } = await abortable(finish(), signal, 'commit');
        if (held !== whole.size || size !== whole.size) {
          throw new FileError(
            'size_mismatch',
            'commit',
            `${path}: the server has ${held} bytes, ${whole.size} bytes were sent`,
          );
        }
        const timeRefused =
          timeIsSet || !modifiedAt ? null : await setTime(written, modifiedAt, 'name');
        const { atomicReplace } = await abortable(
          publish(names, { part, aside, path, overwrite }),
          signal,
          'commit',
        );
        const proof = { size: held, destinationChecksum: 'none', atomicReplace } as const;
        return timeRefused ? { ...proof, timeRefused } : proof;
      } catch (error) {
        throw await fail(error, 'commit');
      }
    },
    close() {
      closing ??= end();
      return closing;
    },
  };
}
