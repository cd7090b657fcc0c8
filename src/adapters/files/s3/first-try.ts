/*
 * The first try of a request for one object, without the SDK. The SDK takes half a millisecond of
 * CPU time to build, sign and read a request, which is most of what a small file costs. Any answer
 * but a success goes to the SDK, which reads the error and retries.
 */
import { hash } from 'node:crypto';
import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  type PutObjectCommand,
  type UploadPartCommand,
} from '@aws-sdk/client-s3';
import { PLAIN_VALUE } from '../http/content-headers.ts';
import type { SdkRequest, SdkResponse } from '../http/http.ts';
import { CRC32_HEADER } from './checksums.ts';
import { metadataIn } from './metadata.ts';
import { createSigner, type Signer } from './signature.ts';

export type ObjectCommand =
  | GetObjectCommand
  | HeadObjectCommand
  | PutObjectCommand
  | UploadPartCommand;

/** What an answer says of an object or part. Of its metadata, only what Waybill knows. */
export type ObjectAnswer = Pick<
  GetObjectCommandOutput,
  | 'Body'
  | 'CacheControl'
  | 'ChecksumCRC32'
  | 'ContentDisposition'
  | 'ContentEncoding'
  | 'ContentLanguage'
  | 'ContentLength'
  | 'ContentRange'
  | 'ContentType'
  | 'ETag'
  | 'LastModified'
  | 'Metadata'
  | 'ServerSideEncryption'
  | 'StorageClass'
>;

export interface FirstTries {
  /** Returns the signed request of a command; null if only the SDK can build it. */
  requestOf(command: ObjectCommand, now: Date): SdkRequest | null;
}

type Input = Record<string, unknown>;

/** The header of each member of an input. The SDK builds requests with other members. */
const HEADERS: Record<string, string> = {
  CacheControl: 'cache-control',
  ChecksumCRC32: CRC32_HEADER,
  ChecksumMode: 'x-amz-checksum-mode',
  ContentDisposition: 'content-disposition',
  ContentEncoding: 'content-encoding',
  ContentLanguage: 'content-language',
  ContentMD5: 'content-md5',
  ContentType: 'content-type',
  IfMatch: 'if-match',
  IfNoneMatch: 'if-none-match',
  Range: 'range',
  SSEKMSKeyId: 'x-amz-server-side-encryption-aws-kms-key-id',
  ServerSideEncryption: 'x-amz-server-side-encryption',
  StorageClass: 'x-amz-storage-class',
};
const NO_CONTENT = hash('sha256', '');

/** `bucketUrl` is where objects are. Hashes bodies for the signature if `signsPayloads` is true. */
export function createFirstTries(
  bucketUrl: URL,
  signer: Signer,
  signsPayloads: boolean,
): FirstTries {
  const { hostname, port, host } = bucketUrl;
  const folder = bucketUrl.pathname.replace(/\/$/, '');
  const sign = createSigner(signer);

  return {
    requestOf(command, now) {
      const { Bucket: _, Key, Body: body, ...input } = command.input as object as Input;
      const headers = headersOf(input);
      if (headers === null || (body !== undefined && !Buffer.isBuffer(body))) return null;
      headers.host = host;
      if (body) headers['content-type'] ??= 'application/octet-stream';
      const method = methodOf(command);
      const path = `${folder}/${String(Key).split('/').map(encoded).join('/')}`;
      const query = queryOf(input);
      const signed = sign({ method, path, query, headers, payload: payloadOf(body) }, now);
      if (body) signed['content-length'] = String(body.length);
      return {
        method,
        hostname,
        ...(port === '' ? {} : { port: Number(port) }),
        path: query === '' ? path : `${path}?${query}`,
        headers: signed,
        body,
      };
    },
  };

  function payloadOf(body: Buffer | undefined): string {
    if (body === undefined) return NO_CONTENT;
    return signsPayloads ? hash('sha256', body) : 'UNSIGNED-PAYLOAD';
  }
}

function methodOf(command: ObjectCommand): string {
  if (command instanceof GetObjectCommand) return 'GET';
  return command instanceof HeadObjectCommand ? 'HEAD' : 'PUT';
}

/** Returns null if a member or its value needs the SDK. */
function headersOf(input: Input): Record<string, string> | null {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined || name === 'PartNumber' || name === 'UploadId') continue;
    if (name === 'Metadata')
      for (const [key, text] of Object.entries(value as Record<string, string>))
        headers[`x-amz-meta-${key}`] = text;
    else headers[HEADERS[name] ?? ''] = String(value);
  }
  const plain = Object.entries(headers).every(
    ([name, value]) => name !== '' && PLAIN_VALUE.test(value),
  );
  return plain ? headers : null;
}

function queryOf({ PartNumber, UploadId }: Input): string {
  if (UploadId === undefined) return '';
  return `partNumber=${PartNumber}&uploadId=${encoded(String(UploadId))}`;
}

/** Encodes all but the unreserved characters of RFC 3986, as the signature wants. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Reads a successful answer. */
export function answerOf({ response: { headers, body } }: SdkResponse): ObjectAnswer {
  const length = headers['content-length'];
  const written = headers['last-modified'];
  return {
    Body: body as unknown as ObjectAnswer['Body'],
    CacheControl: headers['cache-control'],
    ChecksumCRC32: headers[CRC32_HEADER],
    ContentDisposition: headers['content-disposition'],
    ContentEncoding: headers['content-encoding'],
    ContentLanguage: headers['content-language'],
    ContentLength: length === undefined ? undefined : Number(length),
    ContentRange: headers['content-range'],
    ContentType: headers['content-type'],
    ETag: headers.etag,
    LastModified: written === undefined ? undefined : new Date(written),
    Metadata: metadataIn(headers),
    ServerSideEncryption: headers['x-amz-server-side-encryption'] as 'AES256',
    StorageClass: headers['x-amz-storage-class'] as 'STANDARD',
  };
}
