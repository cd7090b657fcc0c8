import { DEFAULT_ACCOUNT } from '../../domain/account.ts';
import { DomainError } from '../../domain/errors.ts';
import type { Installation } from '../../installation.ts';
import { hasHadKey } from '../../projections/catalog/queries.ts';

/**
 * Throws `not_found` for an account that does not exist: no key would see what is created there. It
 * exists once it has had a key.
 */
export async function requireAccount(
  { sql, commands }: Installation,
  account: string,
): Promise<void> {
  if (account === DEFAULT_ACCOUNT || (await hasHadKey(sql, account))) return;
  // If the catalog cannot catch up, it may lack a new key.
  if (!(await commands.catchUp('catalog')) || (await hasHadKey(sql, account))) return;
  throw new DomainError(
    'not_found',
    `There is no account ${account}: an account exists once it has had a key. ` +
      '`waybill keys list` shows the accounts, `waybill keys create --account` creates one',
  );
}
