import type { Context } from '../context.ts';

/**
 * Checks the statuses of all answers. An outage is answered with 503, so 500 is a fault of the
 * service. The load asks only for transfers whose creation was answered, so none of them may be
 * unknown.
 */
export function checkStatuses({ evidence, report }: Context): void {
  for (const request of evidence.requests) {
    const { kind, status, sentAt } = request;
    const subject = 'transferId' in request ? request.transferId : null;
    const name = `${kind === 'other' ? request.what : kind} ${subject ?? ''} sent at ${sentAt}`;
    if (status === 500) report.finding('api.statuses', name, 'it was answered with 500');
    if (status === 404 && (kind === 'detail' || kind === 'cancel'))
      report.finding('api.statuses', name, 'it was answered with 404 after the 201');
  }
}
