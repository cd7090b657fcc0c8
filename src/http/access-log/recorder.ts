import type { FastifyRequest } from 'fastify';
import { type AccessLogDeps, createAccessLog, type Recorded } from '../../commands/access-log.ts';
import type { ProblemCode } from '../../contract/problems.ts';
import type { ExportName } from '../../domain/access.ts';
import { newId } from '../../domain/ids.ts';
import { grants } from '../../domain/scope.ts';
import { RejectedKey } from '../admission/authenticate.ts';
import { causeOf, clientOf } from '../auth/client.ts';
import { clientNetwork } from '../requests/client-address.ts';
import { createFailedSignIns } from './failed-sign-ins.ts';

/** A page that stays open reads a history again and again. One event covers this time. */
const REPEATS_MS = 5 * 60_000;
/** Reads that are remembered for it, at most. */
const REMEMBERED = 10_000;

/** Problems of requests that present a wrong key. A request without a key does not count. */
const FAILURES: readonly ProblemCode[] = [
  'api_key_malformed',
  'api_key_invalid',
  'api_key_expired',
  'api_key_revoked',
  'api_key_id_used',
];

/** Records who read what through the API. */
export interface AccessRecorder {
  /**
   * Records an export. Call it before the first byte leaves: an export that is not in the log
   * cannot exist. Returns null for a HEAD request, which exports nothing. Throws
   * EventStoreUnavailable.
   */
  exported(
    request: FastifyRequest,
    what: ExportName,
    accountId: string | null,
  ): Promise<Recorded | null>;
  /**
   * Records, within a second, who took the receipt of a transfer, or which operator read its
   * history. Programs that follow the history of their own transfers are not recorded.
   */
  transferRead(
    request: FastifyRequest,
    what: 'history' | 'receipt',
    transfer: { transfer_id: string; account_id: string },
  ): void;
  /** Counts a request that failed to sign in, by the code of its problem. */
  rejected(request: FastifyRequest, code: ProblemCode, error: unknown): void;
  /** Counts a person whom the identity provider, or a lack of roles, did not let in. */
  personRejected(request: FastifyRequest, reason: string): void;
  close(): Promise<void>;
}

export function createAccessRecorder(deps: AccessLogDeps): AccessRecorder {
  const log = createAccessLog(deps);
  const reads = new Map<string, number>();
  const failures = createFailedSignIns((data) =>
    log.note({
      event: { type: 'access.sign_in_failed', data },
      cause: {
        actor: 'anonymous',
        correlationId: newId('req'),
        ...(data.address !== null && { clientAddress: data.address }),
      },
      accountId: null,
    }),
  );

  /** Returns true if the same client read the same data a short time ago. */
  function isRepeat(read: string): boolean {
    const now = performance.now();
    const last = reads.get(read);
    if (last !== undefined && now - last < REPEATS_MS) return true;
    // Newest last: the first ones are the oldest.
    reads.delete(read);
    reads.set(read, now);
    const [oldest] = reads.keys();
    if (reads.size > REMEMBERED && oldest !== undefined) reads.delete(oldest);
    return false;
  }

  return {
    async exported(request, what, accountId) {
      if (request.method === 'HEAD') return null;
      const { searchParams } = new URL(request.url, 'http://waybill');
      const parameters: Record<string, string> = Object.fromEntries(searchParams);
      return log.record({
        event: { type: 'access.exported', data: { export: what, parameters } },
        cause: causeOf(request),
        accountId,
      });
    },
    transferRead(request, what, { transfer_id, account_id }) {
      const { session, scopes, actor } = clientOf(request);
      const isOperator = session !== null || grants(scopes, 'observe');
      if (what === 'history' && !isOperator) return;
      const cause = causeOf(request);
      if (isRepeat([what, transfer_id, actor, cause.clientAddress].join(' '))) return;
      const event = { type: `access.${what}_read`, data: { transfer_id } } as const;
      log.note({ event, cause, accountId: account_id });
    },
    rejected(request, code, error) {
      const isFailure =
        FAILURES.includes(code) ||
        // A key that is valid, and not meant for the console.
        (code === 'insufficient_scope' && request.routeOptions.url === '/v1/session');
      const keyId = error instanceof RejectedKey ? error.keyId : null;
      if (isFailure) failures.count(clientNetwork(request), code, keyId);
    },
    personRejected: (request, reason) => failures.count(clientNetwork(request), reason, null),
    async close() {
      failures.close();
      await log.close();
    },
  };
}
