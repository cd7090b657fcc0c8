import { type Vault, VaultError, WEBHOOK_SECRET } from '../../adapters/vault.ts';
import {
  type SigningKeys,
  type SigningSecrets,
  signingKeys,
} from '../../adapters/webhooks/signature.ts';
import type { Claim } from './delivery-table/claim.ts';

/** Secrets whose keys are kept in memory. */
const CACHED = 1_000;

type Records = Pick<Claim, 'secret_record' | 'previous_secret_record' | 'previous_until'>;

export interface Secrets {
  /**
   * Returns the secrets that sign at `now` (epoch ms). Returns null if the vault cannot decrypt the
   * current secret. Leaves out a previous secret that it cannot decrypt: that may be the reason for
   * the rotation.
   */
  of(records: Records, now: number): Promise<SigningSecrets | null>;
}

/** Creates a cache of decrypted secrets. A vault record never changes. */
export function createSecrets(vault: Vault): Secrets {
  const opened = new Map<string, Promise<SigningKeys | null>>();

  /** Returns null if the vault cannot decrypt the record. */
  function open(record: string): Promise<SigningKeys | null> {
    const known = opened.get(record);
    if (known !== undefined) return known;
    if (opened.size >= CACHED) opened.clear();
    const keys = vault.open<{ secret: string }>(record, WEBHOOK_SECRET).then(
      (value) => signingKeys(value.secret),
      (error: unknown) => {
        opened.delete(record);
        if (error instanceof VaultError) return null;
        throw error;
      },
    );
    opened.set(record, keys);
    return keys;
  }

  return {
    async of({ secret_record, previous_secret_record, previous_until }, now) {
      const inGrace =
        previous_secret_record !== null &&
        previous_until !== null &&
        Date.parse(previous_until) > now;
      const [current, previous] = await Promise.all([
        open(secret_record),
        inGrace ? open(previous_secret_record) : null,
      ]);
      return current === null ? null : { current, previous };
    },
  };
}
