import {
  type CheckpointSink,
  checkpointFile,
  type KeptCheckpoint,
  SinkRefuses,
} from '../../adapters/checkpoint-sinks/port.ts';
import { openFileEndpoint } from '../../adapters/files/open.ts';
import { type FileEndpoint, FileError } from '../../adapters/files/port.ts';
import type { Vault } from '../../adapters/vault.ts';
import type { Endpoint } from '../../domain/endpoint.ts';
import { newId } from '../../domain/ids.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { accessTo } from '../endpoints/access.ts';

const WITHIN_MS = 60_000;

export interface EndpointSinkDeps {
  vault: Vault;
  endpoints(): Promise<Endpoint[]>;
}

/**
 * Creates a sink that writes each checkpoint to a file of its own at a configured endpoint, below a
 * folder such as `s3://archive/checkpoints/`. It replaces no file. A bucket with a default retention
 * locks each of them.
 */
export function createEndpointSink(deps: EndpointSinkDeps, folder: string): CheckpointSink {
  return {
    async keep(checkpoint) {
      const base = folder.endsWith('/') ? folder : `${folder}/`;
      const uri = parseTransferUri(base + checkpointFile(checkpoint.size), 'uri');
      const all = (await deps.endpoints()).map((endpoint) => ({ ...endpoint, accounts: null }));
      const found = matchEndpoint(uri, all, '');
      if (found === null) throw new Error(`no endpoint is configured for ${folder}`);
      const { definition, credentials } = await accessTo(deps.vault, found.endpoint);
      const remote = await openFileEndpoint(definition, credentials);
      try {
        await write(remote, found.path, checkpoint);
      } finally {
        await remote.close();
      }
    },
  };
}

/** Writes the note, unless the file is there. Throws SinkRefuses if the file has another note. */
async function write(remote: FileEndpoint, path: string, { note }: KeptCheckpoint): Promise<void> {
  const signal = AbortSignal.timeout(WITHIN_MS);
  const text = Buffer.from(note);
  const content = new Uint8Array(new SharedArrayBuffer(text.length));
  content.set(text);
  const transferId = newId('txr');
  const options = { transferId, claimId: newId('clm'), size: content.length, overwrite: false };
  try {
    const file = await remote.openDestination(path, { ...options, resume: null, signal });
    try {
      await file.write(0, content);
      await file.commit({ size: content.length, sha256: '' });
    } finally {
      await file.close();
    }
  } catch (error) {
    await remote.removeLeftovers(path, { transferId, resume: null, signal }).catch(() => undefined);
    if (!(error instanceof FileError && error.code === 'destination_exists')) throw error;
    if ((await read(remote, path, content.length, signal)) !== note)
      throw new SinkRefuses(`${path} is another checkpoint of this size`);
  }
}

/** Returns the text of a file; an empty text if it has another size. */
async function read(
  remote: FileEndpoint,
  path: string,
  size: number,
  signal: AbortSignal,
): Promise<string> {
  const file = await remote.openSource(path, signal);
  try {
    if (file.identity.size !== size) return '';
    const content = new Uint8Array(new SharedArrayBuffer(size));
    await file.read(0, content);
    return Buffer.from(content).toString();
  } finally {
    await file.close();
  }
}
