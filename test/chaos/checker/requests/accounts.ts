import type { Context } from '../context.ts';

/**
 * Checks that each answer names only what the log has, and only what belongs to the account that
 * asked. Requests for transfers of other accounts must be refused.
 */
export function checkAccounts({ evidence, log, report }: Context): void {
  const owners = new Map<string, unknown>();
  for (const [id, { state }] of log.transfers) owners.set(id, state.facts.account_id);
  for (const entries of [log.batches, log.flows, log.webhooks])
    for (const [id, { state }] of entries) owners.set(id, state.account_id);

  for (const request of evidence.requests) {
    const { kind, account, names, sentAt, status } = request;
    const name = `${'what' in request ? request.what : kind} sent at ${sentAt}`;
    const wrong = (detail: string) => report.finding('api.accounts', name, detail);
    report.count('api_named', names.length);
    for (const id of names) {
      const owner = owners.get(id);
      if (owner === undefined) wrong(`its answer names ${id}, and the log does not hold that`);
      else if (account !== null && owner !== account)
        wrong(`${account} was answered with ${id}, which belongs to ${owner}`);
    }
    if (kind !== 'foreign') continue;
    report.count('api_foreign');
    if (status !== null && status < 400)
      wrong(`${account} was answered with ${status} for ${request.transferId}`);
  }
}
