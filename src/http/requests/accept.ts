import type { FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';

const CSV = ['text/csv', 'text/csv;charset=utf-8'];

/** Returns true if the client prefers CSV to JSON (RFC 9110, section 12.5.1). */
export function asksForCsv(request: FastifyRequest): boolean {
  const type = new Negotiator(request.raw).mediaType(['application/json', ...CSV]);
  return type !== undefined && CSV.includes(type);
}
