import type { EndpointRecord } from '../../evidence.ts';
import type { Context } from '../context.ts';
import type { Fields } from '../log/event.ts';
import { openAzure } from './azure.ts';
import { openFolder } from './folder.ts';
import { openS3 } from './s3.ts';

export interface StoredFile {
  /** Path below the endpoint's base, without a leading slash. */
  path: string;
  size: number;
  /** Time of the last write or rename, in milliseconds since 1970. */
  changedAt: number;
}

/** A multipart upload that was neither completed nor aborted. */
export interface UnfinishedUpload {
  /** Of its object, as in `StoredFile`. */
  path: string;
  id: string;
  /** Of its parts together. */
  bytes: number;
}

/** The files of an endpoint, read without the service. */
export interface Storage {
  /** Prefix that makes a path name one file, for every endpoint that reaches it. */
  location: string;
  list(): AsyncIterable<StoredFile>;
  /** The content in chunks. */
  read(file: StoredFile): Promise<AsyncIterable<Buffer> | Iterable<Buffer>>;
  uploads(): Promise<UnfinishedUpload[]>;
  close(): void;
}

/** Opens the storage of each endpoint of the run, by its name. */
export function openStorages({ evidence, log }: Context): Map<string, Storage> {
  const storages = new Map<string, Storage>();
  for (const record of evidence.run.endpoints) {
    const configured = [...log.endpoints.values()].find(({ state }) => state.name === record.name);
    const settings = (configured?.state.settings ?? {}) as Fields;
    const prefix = String(settings.prefix ?? '').replace(/^\/+|\/+$/g, '');
    storages.set(record.name, openStorage(record, prefix === '' ? '' : `${prefix}/`));
  }
  return storages;
}

/** `prefix`: where the paths of an S3 or Azure endpoint begin. */
export function openStorage(record: EndpointRecord, prefix: string): Storage {
  switch (record.kind) {
    case 'folder':
      return openFolder(record.path);
    case 's3':
      return openS3(record, prefix);
    case 'azure':
      return openAzure(record, prefix);
  }
}
