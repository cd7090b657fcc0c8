import type { IncomingHttpHeaders } from 'node:http';
import { copyObject } from './copy.ts';
import { listMultipartUploads, listObjectsV2 } from './listings.ts';
import {
  abortMultipartUpload,
  completeMultipartUpload,
  createMultipartUpload,
  listParts,
  uploadPart,
} from './multipart.ts';
import { deleteObject, getObject, putObject } from './objects.ts';
import type { Authentication } from './signature.ts';
import type { Bucket } from './store.ts';

/** A correctly signed request for an existing bucket. */
export interface Call {
  bucket: Bucket;
  bucketName: string;
  key: string;
  query: ReadonlyMap<string, string>;
  headers: IncomingHttpHeaders;
  /** The body as it arrives. */
  content(): AsyncIterable<Buffer>;
  /** The checked body as text, for a small document. */
  text(): Promise<string>;
  authentication: Authentication;
  /** The most entries of one answer. */
  pageSize: number;
  /** Whether the checksums of an object of parts are those of a whole object. */
  wholeChecksums: boolean;
  /** Where bodies are stored. */
  folder: string;
  /** The URL of the object. */
  location: string;
}

export interface Answer {
  status: number;
  headers?: Record<string, string>;
  /** A document or the content of an object. */
  body?: string | AsyncGenerator<Buffer, void, undefined>;
}

export const operations = {
  HeadBucket: async (): Promise<Answer> => ({ status: 200 }),
  ListObjectsV2: listObjectsV2,
  ListMultipartUploads: listMultipartUploads,
  PutObject: putObject,
  CopyObject: copyObject,
  GetObject: getObject,
  HeadObject: getObject,
  DeleteObject: deleteObject,
  CreateMultipartUpload: createMultipartUpload,
  UploadPart: uploadPart,
  ListParts: listParts,
  CompleteMultipartUpload: completeMultipartUpload,
  AbortMultipartUpload: abortMultipartUpload,
} satisfies Record<string, (call: Call) => Promise<Answer>>;

export type Operation = keyof typeof operations;

/** Null if this server lacks the operation. */
export function operationOf(
  method: string,
  key: string,
  query: ReadonlyMap<string, string>,
  isCopy: boolean,
): Operation | null {
  const upload = query.has('uploadId');
  if (key === '') {
    if (method === 'HEAD') return 'HeadBucket';
    if (method !== 'GET') return null;
    return query.has('uploads') ? 'ListMultipartUploads' : 'ListObjectsV2';
  }
  if (method === 'GET') return upload ? 'ListParts' : 'GetObject';
  if (method === 'HEAD') return 'HeadObject';
  if (method === 'PUT' && isCopy && !upload) return 'CopyObject';
  if (method === 'PUT') return upload ? 'UploadPart' : 'PutObject';
  if (method === 'DELETE') return upload ? 'AbortMultipartUpload' : 'DeleteObject';
  if (method === 'POST' && query.has('uploads')) return 'CreateMultipartUpload';
  return method === 'POST' && upload ? 'CompleteMultipartUpload' : null;
}
