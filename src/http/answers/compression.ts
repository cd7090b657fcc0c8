import compress from '@fastify/compress';
import type { FastifyInstance, RouteOptions } from 'fastify';

const COMPRESSED = ['application/json', 'text/csv', 'text/plain'];

/**
 * Compresses the answers of every route registered after this call, for clients that ask for it.
 * Answers below 1 KiB stay plain. So do routes that may send events or lines as they happen: a
 * compressor would hold them back.
 */
export async function compressAnswers(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    const types = typesOf(route);
    const isWhole = types.length > 0 && types.every((type) => COMPRESSED.includes(type));
    if (isWhole) route.compress = { encodings: ['br', 'gzip'] };
  });
  await app.register(compress, { global: false });
  // Fastify's hook for HEAD drops the body. It must come last, so that the headers are those of
  // GET.
  app.addHook('onRoute', ({ method, compress, onSend }) => {
    if (method === 'HEAD' && compress && Array.isArray(onSend))
      onSend.unshift(...onSend.splice(-1));
  });
}

/** Returns the types of the successful answers that the route documents. */
function typesOf({ schema }: RouteOptions): string[] {
  const answers = (schema?.response ?? {}) as Record<string, { content?: object }>;
  return Object.entries(answers).flatMap(([status, { content = {} }]) =>
    status.startsWith('2') ? Object.keys(content) : [],
  );
}
