import type { FastifyInstance } from 'fastify';
import { DomainError } from '../domain/errors.ts';

/** Bytes of a request body at most. */
export const BODY_LIMIT = 64 * 1024;

/** JSON in UTF-8 is all that is read. No body at all is left to the route's schema to judge. */
export function acceptJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(request.headers['content-type'] ?? '')?.[1];
    if (charset !== undefined && charset.toLowerCase() !== 'utf-8') {
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
  });
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parse(body: Buffer): unknown {
  try {
    const text = utf8.decode(body);
    // Visiting every value takes several times as long as parsing; an escape may spell the key too.
    return JSON.parse(text, /__proto__|\\u/.test(text) ? refusePrototype : undefined);
  } catch (error) {
    if (error instanceof DomainError) throw error;
    throw new DomainError('invalid_json', 'The body must be JSON in UTF-8');
  }
}

/** As a key it would be lost, or change an object's nature, somewhere on the way. */
function refusePrototype(key: string, value: unknown): unknown {
  if (key !== '__proto__') return value;
  const message = 'must not be used as a key';
  throw new DomainError('validation_failed', `__proto__: ${message}`, {
    errors: [{ field: '__proto__', code: 'validation_failed', message }],
  });
}
