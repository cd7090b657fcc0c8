import type {
  BlobItem,
  ContainerClient,
  ContainerListBlobHierarchySegmentResponse,
} from '@azure/storage-blob';
import { createFolderEntries } from '../folder-entries.ts';
import { type FileEntry, FileError } from '../port.ts';
import { isForbidden, isUnparsed, serverAnswer } from './errors.ts';
import { isFolder } from './source.ts';
import type { Store } from './store.ts';

type Page = ContainerListBlobHierarchySegmentResponse;

/** Returns the files and folders of a folder. */
export async function listFolder(
  store: Store,
  path: string,
  abortSignal: AbortSignal,
): Promise<FileEntry[]> {
  const prefix = path === '' || path.endsWith('/') ? path : `${path}/`;
  const folder = path || store.container.containerName;
  const entries = createFolderEntries<FileEntry>(folder);
  const nameOf = (prefixed: string) => prefixed.slice(prefix.length).replace(/\/$/, '');
  let marker: string | undefined;
  do {
    const { segment, continuationToken } = await pageAfter(store, marker, prefix, abortSignal);
    // The list would have no end.
    if (continuationToken && continuationToken === marker)
      throw new FileError(
        'connection_failed',
        'open',
        `${folder}: the server lists only the first blobs: it repeats the marker of a page`,
      );
    marker = continuationToken;
    for (const item of segment.blobPrefixes ?? []) {
      const name = nameOf(item.name);
      entries.add(name, { name, type: 'directory', size: null, modified_at: null });
    }
    for (const item of segment.blobItems) {
      const name = nameOf(item.name);
      // Some tools store a folder as an empty blob whose name ends in a slash.
      if (name === '' || isFolder(item)) continue;
      const { contentLength = null, lastModified, etag } = item.properties;
      entries.add(name, {
        name,
        type: 'file',
        size: contentLength,
        modified_at: lastModified.toISOString(),
        etag,
      });
    }
  } while (marker);
  return entries.all;
}

/**
 * Returns the page of a list after a marker, with the metadata of its empty blobs: each may stand
 * for a folder. The SDK parses no page with a metadata key such as `constructor`. Such a page is
 * listed again without metadata.
 */
async function pageAfter(
  store: Store,
  marker: string | undefined,
  prefix: string,
  abortSignal: AbortSignal,
): Promise<Page> {
  const options = { prefix, abortSignal };
  try {
    return await oneSegment(store.container, marker, { ...options, includeMetadata: true });
  } catch (error) {
    if (!isUnparsed(error)) throw error;
  }
  const page = await oneSegment(store.container, marker, options);
  for (const item of page.segment.blobItems)
    if (item.properties.contentLength === 0) await addMetadata(store, item, abortSignal);
  return page;
}

async function oneSegment(
  container: ContainerClient,
  marker: string | undefined,
  options: { prefix: string; includeMetadata?: boolean; abortSignal: AbortSignal },
): Promise<Page> {
  const from = marker === undefined ? {} : { continuationToken: marker };
  const { value } = await container.listBlobsByHierarchy('/', options).byPage(from).next();
  return value;
}

/** Adds the metadata of a blob: none if it is gone or the credentials permit only listing. */
async function addMetadata(store: Store, item: BlobItem, abortSignal: AbortSignal): Promise<void> {
  try {
    const { metadata = {} } = await store.blob(item.name).getProperties({ abortSignal });
    item.metadata = metadata;
  } catch (error) {
    if (serverAnswer(error) !== 'BlobNotFound' && !isForbidden(error)) throw error;
  }
}
