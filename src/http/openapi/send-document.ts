import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';

const COMPRESSED = { br: promisify(brotliCompress), gzip: promisify(gzip) };
const ENCODINGS = ['br', 'gzip', 'identity'];
/** The types of the package lack the order of encodings that a client accepts alike. */
interface WithPreference {
  encoding(available: string[], options: { preferred: string[] }): string | undefined;
}

/**
 * Creates a handler that sends a document which does not change. It needs no key, so each form of
 * the document is made once, and a client that has it gets 304.
 */
export function sendDocument(type: string, read: () => string) {
  const forms = new Map<string, Promise<Buffer>>();
  let tag: string | null = null;

  function formIn(encoding: string): Promise<Buffer> {
    const made = forms.get(encoding);
    if (made !== undefined) return made;
    const text = read();
    const form = isCompressed(encoding)
      ? COMPRESSED[encoding](text)
      : Promise.resolve(Buffer.from(text));
    forms.set(encoding, form);
    return form;
  }

  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    // Weak: the forms have one tag.
    tag ??= `W/"${createHash('sha256').update(read()).digest('base64url')}"`;
    void reply.headers({ etag: tag, 'cache-control': 'no-cache', vary: 'accept-encoding' });
    const known = request.headers['if-none-match'];
    if (known?.trim() === '*' || known?.includes(tag.slice(2))) return reply.code(304).send();
    const negotiator = new Negotiator(request.raw) as WithPreference;
    const encoding = negotiator.encoding(ENCODINGS, { preferred: ENCODINGS }) ?? 'identity';
    if (isCompressed(encoding)) void reply.header('content-encoding', encoding);
    return reply.type(type).send(await formIn(encoding));
  };
}

function isCompressed(encoding: string): encoding is keyof typeof COMPRESSED {
  return encoding in COMPRESSED;
}
