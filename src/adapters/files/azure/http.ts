import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import {
  type HttpHeaders,
  type HttpOperationResponse,
  type IHttpClient,
  RestError,
  type WebResource,
} from '@azure/storage-blob';
import type { Http, Target } from '../http/http.ts';
import { pageInPlace } from '../http/other-service.ts';
import type { SentBytes } from '../http/sent-bytes.ts';
import { FileError } from '../port.ts';
import { fileError } from './errors.ts';

/**
 * The HTTP client of the SDK, over connections of this adapter. The SDK's own client limits neither
 * connections nor stalls.
 */
export interface SdkClient extends IHttpClient {
  /**
   * Reads the answer to the request sent with `signal` into `target`, which must have room for it.
   * This bypasses the SDK's streams, which hide connection errors. If the connection breaks, the
   * whole request is retried.
   */
  fill(target: Uint8Array, signal: AbortSignal): void;
  /** Counts the body of the request sent with `signal`. */
  count(sent: SentBytes, signal: AbortSignal): void;
}

export function createSdkClient(http: Http): SdkClient {
  const targets = new WeakMap<object, Uint8Array>();
  const counts = new WeakMap<object, SentBytes>();

  async function send(request: WebResource): Promise<HttpOperationResponse> {
    const url = new URL(request.url);
    const abortSignal = request.abortSignal as AbortSignal | undefined;
    const bytes = abortSignal && targets.get(abortSignal);
    const into: Target | undefined = bytes && { bytes, filled: null };
    const { response } = await http.handle(
      {
        method: request.method,
        hostname: url.hostname,
        ...(url.port === '' ? {} : { port: Number(url.port) }),
        path: `${url.pathname}${url.search}`,
        headers: { ...request.headers.toJson({ preserveCase: true }), host: url.host },
        body: typeof request.body === 'function' ? request.body() : request.body,
      },
      {
        ...(abortSignal ? { abortSignal, sent: counts.get(abortSignal) } : {}),
        ...(into ? { target: into } : {}),
      },
    );
    const { statusCode: status, body } = response;
    const answer = { request, status, headers: sdkHeaders(request.headers, response.headers) };
    if (into && status < 300) {
      if (!response.headers.etag) throw pageInPlace(url.host, 'transfer');
      const length = Number(response.headers['content-length'] ?? into.bytes.length);
      // The service sent the whole blob instead of a range. The headers are enough.
      if (status !== 206) body.destroy();
      else if (into.filled === null)
        await readInto(body, into.bytes.subarray(0, length), abortSignal as AbortSignal);
      // This stream never ends and is never read. The SDK would compare the length of an ended
      // stream with the content-length.
      return { ...answer, readableStreamBody: new Readable({ read() {} }) };
    }
    return { ...answer, bodyAsText: await text(body) };
  }

  return {
    async sendRequest(request) {
      try {
        return await send(request);
      } catch (error) {
        if (error instanceof FileError || request.abortSignal?.aborted) throw error;
        const failed = fileError(error, 'transfer', new URL(request.url).host, 'source');
        // Within the request, only a connection that broke under way is retried.
        if (failed.step === 'connect' || failed.code !== 'connection_failed') throw failed;
        throw new RestError((error as Error).message, { code: 'ECONNRESET' });
      }
    },
    fill(target, signal) {
      targets.set(signal, target);
    },
    count(sent, signal) {
      counts.set(signal, sent);
    },
  };
}

/**
 * Reads the body and counts its bytes, so that a connection that ends early does not pass for the
 * end of the content.
 */
async function readInto(body: Readable, target: Uint8Array, signal: AbortSignal): Promise<void> {
  let filled = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (signal.aborted) break;
    if (filled + chunk.length > target.length)
      throw new Error('the server sent more bytes than were requested');
    target.set(chunk, filled);
    filled += chunk.length;
  }
  if (filled === target.length) return;
  throw Object.assign(new Error(`the server sent ${filled} of ${target.length} bytes`), {
    code: 'ECONNRESET',
  });
}

/** Builds headers by cloning: the SDK exports their type, but no constructor. */
function sdkHeaders(like: HttpHeaders, received: Record<string, string>): HttpHeaders {
  const headers = like.clone();
  for (const name of headers.headerNames()) headers.remove(name);
  for (const [name, value] of Object.entries(received)) headers.set(name, value);
  return headers;
}
