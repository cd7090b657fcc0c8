import { DeleteObjectCommand, paginateListObjectsV2 } from '@aws-sdk/client-s3';
import type { S3Credentials, S3Settings } from '../../../domain/protocols/s3.ts';
import { abortError } from '../abort.ts';
import { createFolderEntries } from '../folder-entries.ts';
import { OtherService } from '../http/other-service.ts';
import { probe } from '../http/probe.ts';
import { type HttpTimeouts, TIMEOUTS } from '../http/timeouts.ts';
import { reach, tunnelOf } from '../http/tunnel.ts';
import { type FileEndpoint, type FileEntry, FileError } from '../port.ts';
import { openDestination } from './destination.ts';
import { dispose } from './dispose.ts';
import { fileError, otherService } from './errors.ts';
import { PART_LIMITS, type PartLimits } from './limits.ts';
import { openSource } from './source.ts';
import { createStore, type Store } from './store.ts';
import { createUploads, removeLeftovers } from './uploads.ts';

export interface S3EndpointOptions {
  settings: S3Settings;
  credentials: S3Credentials;
  maxConnections: number;
  timeouts?: Partial<HttpTimeouts>;
  /** Replaces the limits of S3, for tests of huge objects. */
  partLimits?: PartLimits;
}

/** Creates a FileEndpoint for one bucket. Keys are used unchanged. */
export function createS3Endpoint({
  settings,
  credentials,
  maxConnections,
  timeouts: given,
  partLimits = PART_LIMITS,
}: S3EndpointOptions): FileEndpoint {
  const timeouts = { ...TIMEOUTS, ...given };
  const tunnel = tunnelOf(settings, credentials, timeouts);
  const store = createStore({ settings, credentials, maxConnections, timeouts, tunnel });
  const uploads = createUploads();
  return {
    connections: async () => store.connections,
    openSource: (key, signal) => openSource(store, key, signal),
    openDestination: (key, options) => openDestination(store, uploads, partLimits, key, options),
    reach: (signal) => reach(tunnel, store.url(), signal),
    probe: (signal) => probe(store.url(), tunnel, settings.ca_pem, timeouts.connectMs, signal),
    async list(path, signal) {
      try {
        return await listFolder(store, path, signal);
      } catch (error) {
        throw signal.aborted
          ? abortError(signal, 'open')
          : (otherService(error, store.url()) ??
              fileError(error, 'open', path || settings.bucket, 'source'));
      }
    },
    async remove(key, signal) {
      try {
        // S3 reports success for a delete of a key that never existed, so the key is looked up
        // first.
        await store.head(key, signal);
        await store.s3.send(new DeleteObjectCommand({ Bucket: settings.bucket, Key: key }), {
          abortSignal: signal,
        });
      } catch (error) {
        throw signal.aborted
          ? abortError(signal, 'commit')
          : fileError(error, 'commit', key, 'source');
      }
    },
    dispose: (key, options) => dispose(store, key, options),
    removeLeftovers: (key, leftovers) => removeLeftovers(store, uploads, key, leftovers),
    async close() {
      store.close();
    },
  };
}

async function listFolder(
  { s3, settings, url }: Store,
  path: string,
  signal: AbortSignal,
): Promise<FileEntry[]> {
  const prefix = path === '' || path.endsWith('/') ? path : `${path}/`;
  const entries = createFolderEntries<FileEntry>(path || settings.bucket);
  const input = { Bucket: settings.bucket, Prefix: prefix, Delimiter: '/' };
  let token: string | undefined;
  for await (const page of paginateListObjectsV2({ client: s3 }, input, { abortSignal: signal })) {
    const { CommonPrefixes = [], Contents = [], Name, IsTruncated, MaxKeys } = page;
    const { NextContinuationToken: next } = page;
    // The SDK reads any answer without an error as an empty list.
    if (Name === undefined && IsTruncated === undefined && MaxKeys === undefined)
      throw new OtherService('an S3 service', url(), 'no list of objects');
    // The SDK would take what is listed so far for the whole folder, or ask without an end.
    if (IsTruncated && (!next || next === token))
      throw new FileError(
        'connection_failed',
        'open',
        `${path || settings.bucket}: the server lists only the first objects: it lacks ListObjectsV2`,
      );
    token = next;
    for (const { Prefix = '' } of CommonPrefixes) {
      const name = Prefix.slice(prefix.length, -1);
      entries.add(name, { name, type: 'directory', size: null, modified_at: null });
    }
    for (const { Key = '', Size = null, LastModified, ETag } of Contents) {
      // Some tools store a folder as an empty object whose key ends in a slash.
      if (Key === prefix) continue;
      const name = Key.slice(prefix.length);
      entries.add(name, {
        name,
        type: 'file',
        size: Size,
        modified_at: LastModified?.toISOString() ?? null,
        ...(ETag !== undefined && { etag: ETag }),
      });
    }
  }
  return entries.all;
}
