import { DomainError } from '../../domain/errors.ts';
import type { Webhook } from '../../domain/webhook.ts';
import type { Installation } from '../../installation.ts';
import { findWebhook } from '../../projections/catalog/queries.ts';

/** Finds a webhook of an account. Throws `not_found`. */
export async function findOrThrow(
  stores: Installation,
  account: string,
  id: string,
): Promise<Webhook> {
  const found = await findWebhook(stores, account, id);
  if (!found)
    throw new DomainError(
      'not_found',
      `There is no webhook ${id} in ${account}: \`waybill webhooks list\` shows the ids`,
    );
  return found;
}
