import type { FastifyRequest } from 'fastify';
import { DomainError, fieldError } from '../../domain/errors.ts';

const TAGS = /^(W\/)?"[\x21\x23-\x7e]*"(, *(W\/)?"[\x21\x23-\x7e]*")*$/;

/**
 * Returns the revisions that If-Match names, each as a strong entity tag. A weak one never matches
 * (RFC 9110). Returns undefined if any revision will do. Throws `invalid_parameter`.
 */
export function readIfMatch(request: FastifyRequest): number[] | undefined {
  const header = readTags(request, 'If-Match');
  if (header === undefined || header === '*') return undefined;
  return [...header.matchAll(/(?<!W\/)"(\d{1,9})"/g)].map(([, revision]) => Number(revision));
}

/**
 * Checks If-None-Match on a request that changes what exists at a revision. `*` matches any, and a
 * weak entity tag like a strong one (RFC 9110). Throws `precondition_failed` and
 * `invalid_parameter`.
 */
export function requireNoneMatch(request: FastifyRequest, revision: number): void {
  const header = readTags(request, 'If-None-Match');
  if (header === undefined) return;
  if (header !== '*' && !header.split(/, */).some((tag) => tag.endsWith(`"${revision}"`))) return;
  throw new DomainError(
    'precondition_failed',
    `The resource exists at revision ${revision}, and If-None-Match is ${header}: send the ` +
      'request without it, or create another resource with POST',
  );
}

/** Returns the value of a header with entity tags. Throws `invalid_parameter`. */
function readTags({ raw }: FastifyRequest, name: 'If-Match' | 'If-None-Match') {
  const header = raw.headersDistinct[name.toLowerCase()]?.join(', ');
  if (header !== undefined && header !== '*' && !TAGS.test(header))
    throw fieldError(name, 'must be an ETag, such as "7", or *', 'invalid_parameter');
  return header;
}
