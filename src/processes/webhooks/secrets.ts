import { type Vault, VaultError } from '../../adapters/vault.ts';
import type { SigningSecrets } from '../../adapters/webhooks/signature.ts';
import type { Claim } from './claims.ts';

/** What a webhook's secret is sealed for. */
const PURPOSE = 'webhook-secret';
const KEPT = 1_000;

type Records = Pick<Claim, 'secret_record' | 'previous_secret_record' | 'previous_until'>;

export interface Secrets {
  /**
   * The secrets that sign at a time, in milliseconds since 1970; null where the present one does not open. One before
   * it that does not open is left out: it may be what the rotation was for.
   */
  of(records: Records, now: number): Promise<SigningSecrets | null>;
}

/** Opens secrets once: a vault record never changes. */
export function createSecrets(vault: Vault): Secrets {
  const opened = new Map<string, Promise<string | null>>();

  /** null where it does not open. */
  function open(record: string): Promise<string | null> {
    const known = opened.get(record);
    if (known !== undefined) return known;
    if (opened.size >= KEPT) opened.clear();
    const secret = vault.open<{ secret: string }>(record, PURPOSE).then(
      (value) => value.secret,
      (error: unknown) => {
        opened.delete(record);
        if (error instanceof VaultError) return null;
        throw error;
      },
    );
    opened.set(record, secret);
    return secret;
  }

  return {
    async of({ secret_record, previous_secret_record, previous_until }, now) {
      const inGrace = previous_secret_record !== null && previous_until !== null && Date.parse(previous_until) > now;
      const [current, previous] = await Promise.all([open(secret_record), inGrace ? open(previous_secret_record) : null]);
      return current === null ? null : { current, previous };
    },
  };
}
