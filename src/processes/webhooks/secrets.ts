import type { Vault } from '../../adapters/vault.ts';
import type { SigningSecrets } from '../../adapters/webhooks/signature.ts';
import type { Claim } from './claims.ts';

/** What a webhook's secret is sealed for. */
const PURPOSE = 'webhook-secret';
const KEPT = 1_000;

type Records = Pick<Claim, 'secret_record' | 'previous_secret_record' | 'previous_until'>;

export interface Secrets {
  /** The secrets that sign at a time, in milliseconds since 1970. Rejects with VaultError. */
  of(records: Records, now: number): Promise<SigningSecrets>;
}

/** Opens secrets once: a vault record never changes. */
export function createSecrets(vault: Vault): Secrets {
  const opened = new Map<string, Promise<string>>();

  function open(record: string): Promise<string> {
    const known = opened.get(record);
    if (known !== undefined) return known;
    if (opened.size >= KEPT) opened.clear();
    const secret = vault.open<{ secret: string }>(record, PURPOSE).then((value) => value.secret);
    opened.set(record, secret);
    secret.catch(() => opened.delete(record));
    return secret;
  }

  return {
    async of({ secret_record, previous_secret_record, previous_until }, now) {
      const inGrace = previous_secret_record !== null && previous_until !== null && Date.parse(previous_until) > now;
      const [current, previous] = await Promise.all([open(secret_record), inGrace ? open(previous_secret_record) : null]);
      return { current, previous };
    },
  };
}
