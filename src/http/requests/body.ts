import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { whyNotJson } from '../../contract/validation-messages.ts';
import { DomainError } from '../../domain/errors.ts';
import { isHeldBack } from './expect.ts';
import { parseStrictly } from './strict-json.ts';

/** Bytes of an unread body that are still read. After these, the connection is closed. */
const DISCARDED = 8 << 20;

/** How long the rest of an unread body may take to arrive, after the answer. */
const DISCARDED_MS = 30_000;

/**
 * Reads the rest of the body after the answers 413 and 415. Fastify alone closes the connection with
 * these answers. A client that still sends then reports a broken pipe in place of the answer.
 */
export function discardUnreadBodies(app: FastifyInstance): void {
  app.addHook('onSend', async ({ raw }, { statusCode, raw: response }) => {
    if ((statusCode === 413 || statusCode === 415) && !isHeldBack(raw) && !raw.complete)
      endAfterBody(response);
  });
}

/** Makes the `end` of an answer send all of it, and close the connection after the body. */
function endAfterBody(response: ServerResponse): void {
  const end = response.end.bind(response);
  function endLater(payload: string | Buffer): ServerResponse {
    response.write(payload);
    const late = sleep(DISCARDED_MS, undefined, { ref: false });
    void Promise.race([discardBody(response.req), late]).then(() => end());
    return response;
  }
  Object.assign(response, { end: endLater });
}

/** Reads the rest of a body. Returns before its end if it is very long, or does not arrive. */
export async function discardBody(request: IncomingMessage): Promise<void> {
  if (request.complete) return;
  await new Promise<void>((resolve) => {
    let left = DISCARDED;
    request.on('data', ({ length }: Buffer) => {
      left -= length;
      if (left < 0) resolve();
    });
    for (const event of ['end', 'error', 'close']) request.once(event, () => resolve());
    request.resume();
  });
}

/**
 * Accepts only plain JSON in UTF-8. A missing body becomes `undefined`, and the route's schema
 * decides.
 */
export function acceptJson(app: FastifyInstance): void {
  // Python's urllib, `curl -d ''` and others name a type although they send nothing. A proxy from
  // HTTP/2 announces chunks for a body of unknown length, also if it is empty.
  app.addHook('preParsing', async ({ method, headers, raw }) => {
    if (method === 'GET' || method === 'HEAD' || !(await isEmpty(raw))) return;
    delete headers['content-type'];
    delete headers['transfer-encoding'];
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    (request, body: Buffer, done) => {
      const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(
        request.headers['content-type'] ?? '',
      )?.[1];
      const coding = request.headers['content-encoding'] || 'identity';
      // Node keeps the first of several types; a proxy may have checked the last one.
      if (new Set(request.raw.headersDistinct['content-type']).size > 1) {
        done(new DomainError('unsupported_media_type', 'The Content-Type must be given once'));
      } else if (coding.toLowerCase() !== 'identity') {
        const message = `Send the body without Content-Encoding: ${coding}`;
        done(new DomainError('unsupported_media_type', message));
      } else if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
        done(new DomainError('unsupported_media_type', 'JSON must be encoded in UTF-8'));
      } else if (body.length === 0) {
        done(null, undefined);
      } else {
        try {
          done(null, parse(body));
        } catch (error) {
          done(error as Error);
        }
      }
    },
  );
}

/** Only the first chunk shows whether a chunked body is empty. It stays in the buffer. */
async function isEmpty(request: IncomingMessage): Promise<boolean> {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = request.headers;
  if (coding === undefined) return length === '0';
  if (!request.complete && request.readableLength === 0)
    await new Promise<void>((resolve) => {
      for (const event of ['readable', 'end', 'error', 'close'])
        request.once(event, () => resolve());
    });
  return request.complete && request.readableLength === 0;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parse(body: Buffer): unknown {
  try {
    return parseStrictly(utf8.decode(body));
  } catch (error) {
    if (error instanceof DomainError) throw error;
    const reason = error instanceof SyntaxError ? `: ${whyNotJson(error)}` : '';
    throw new DomainError('invalid_json', `The body must be JSON in UTF-8${reason}`);
  }
}
