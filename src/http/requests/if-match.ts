import type { FastifyRequest } from 'fastify';
import { fieldError } from '../../domain/errors.ts';

const TAGS = /^(W\/)?"[\x21\x23-\x7e]*"(, *(W\/)?"[\x21\x23-\x7e]*")*$/;

/**
 * Returns the revisions that If-Match names, each as a strong entity tag. A weak one never matches
 * (RFC 9110). Returns undefined if any revision will do. Throws `invalid_parameter`.
 */
export function readIfMatch({ raw }: FastifyRequest): number[] | undefined {
  const header = raw.headersDistinct['if-match']?.join(', ');
  if (header === undefined || header === '*') return undefined;
  if (!TAGS.test(header))
    throw fieldError('If-Match', 'must be an ETag, such as "7", or *', 'invalid_parameter');
  return [...header.matchAll(/(?<!W\/)"(\d{1,9})"/g)].map(([, revision]) => Number(revision));
}
