import { dirname, join } from 'node:path/posix';
import {
  type CheckpointSink,
  checkpointFile,
  newestFile,
  type SentCheckpoint,
  SinkRefuses,
} from '../../adapters/checkpoint-sinks/port.ts';
import { timeLimit } from '../../adapters/files/abort.ts';
import { commitAlways } from '../../adapters/files/commit.ts';
import { openFileEndpoint } from '../../adapters/files/open.ts';
import { type FileEndpoint, FileError } from '../../adapters/files/port.ts';
import type { Vault } from '../../adapters/vault.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';
import { newId } from '../../domain/ids.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { accessTo } from '../endpoints/open-endpoint.ts';

const WITHIN_MS = 60_000;
/** A folder has half a million files after a year. */
const LIST_WITHIN_MS = 600_000;
/** A note has three lines and a few signatures. */
const LONGEST_NOTE = 65_536;

export interface EndpointSinkDeps {
  vault: Vault;
  endpoints(): Promise<Endpoint[]>;
}

/**
 * Creates a sink that writes each checkpoint to a file of its own at a configured endpoint, below a
 * folder such as `s3://archive/checkpoints/`. It replaces no file. A bucket with a default
 * retention locks each of them.
 */
export function createEndpointSink(
  deps: EndpointSinkDeps,
  folder: string,
  withinMs = WITHIN_MS,
): CheckpointSink {
  const base = folder.endsWith('/') ? folder : `${folder}/`;

  async function withFile<T>(
    name: string,
    work: (remote: FileEndpoint, path: string) => Promise<T>,
  ): Promise<T> {
    const uri = parseTransferUri(base + name, 'uri');
    const all = (await deps.endpoints()).map((endpoint) => ({ ...endpoint, accounts: null }));
    const found = matchEndpoint(uri, all, '');
    if (found === null)
      throw new Error(
        `no endpoint is configured for ${folder}: add the endpoint, or correct ` +
          'WAYBILL_CHECKPOINT_SINKS',
      );
    const { definition, credentials } = await accessTo(deps.vault, found.endpoint);
    const remote = await openFileEndpoint(definition, credentials);
    try {
      return await work(remote, found.path);
    } finally {
      await remote.close();
    }
  }

  return {
    newest: () => withFile(checkpointFile(0), newestIn),
    has: (size) =>
      withFile(checkpointFile(size), (remote, path) => isThere(remote, path, withinMs)),
    keep: (checkpoint) =>
      withFile(checkpointFile(checkpoint.size), (remote, path) =>
        write(remote, path, checkpoint, withinMs),
      ),
  };
}

/** Returns the note of the largest checkpoint in the folder of a file; null if there is none. */
async function newestIn(remote: FileEndpoint, path: string): Promise<string | null> {
  const signal = timeLimit(LIST_WITHIN_MS, 'open');
  const folder = path.includes('/') ? dirname(path) : '';
  const entries = await remote.list(folder, signal).catch((error: unknown) => {
    if (error instanceof FileError && error.code === 'source_not_found') return [];
    throw error;
  });
  const name = newestFile(entries.map((entry) => entry.name));
  return name && read(remote, join(folder, name), signal);
}

async function isThere(remote: FileEndpoint, path: string, withinMs: number): Promise<boolean> {
  const found = read(remote, path, timeLimit(withinMs, 'open'));
  return found.then(
    () => true,
    (error: unknown) => {
      if (error instanceof FileError && error.code === 'source_not_found') return false;
      throw error;
    },
  );
}

/** Writes the note, unless the file is there. Throws SinkRefuses if the file has another note. */
async function write(
  remote: FileEndpoint,
  path: string,
  { note }: SentCheckpoint,
  withinMs: number,
): Promise<void> {
  const signal = timeLimit(withinMs, 'transfer');
  const text = Buffer.from(note);
  const content = new Uint8Array(new SharedArrayBuffer(text.length));
  content.set(text);
  const transferId = newId('txr');
  const options = { transferId, claimId: newId('clm'), size: content.length, overwrite: false };
  try {
    const file = await remote.openDestination(path, { ...options, resume: null, signal });
    try {
      await file.write(0, content);
      await commitAlways(file, { size: content.length, sha256: '' });
    } finally {
      await file.close();
    }
  } catch (error) {
    const leftovers = { transferId, resume: null, signal: timeLimit(withinMs, 'commit') };
    await remote.removeLeftovers(path, leftovers).catch(() => undefined);
    if (!(error instanceof FileError && error.code === 'destination_exists')) throw error;
    if ((await read(remote, path, signal)) !== note)
      throw new SinkRefuses(`${path} is another checkpoint of this size`);
  }
}

/** Returns the text of a file; an empty text if it is too long for a note. */
async function read(remote: FileEndpoint, path: string, signal: AbortSignal): Promise<string> {
  const file = await remote.openSource(path, signal);
  try {
    const { size } = file.identity;
    if (size === 0 || size > LONGEST_NOTE) return '';
    const content = new Uint8Array(new SharedArrayBuffer(size));
    await file.read(0, content);
    return Buffer.from(content).toString();
  } finally {
    await file.close();
  }
}
