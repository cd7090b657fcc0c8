/** What receivers recognize a secret of the Standard Webhooks by. */
const PREFIX = 'whsec_';
const BYTES = 32;

/**
 * Returns a new signing secret. The service could generate it, but its answer may be lost, and with
 * it the only copy.
 */
export function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(BYTES));
  return PREFIX + btoa(String.fromCharCode(...bytes));
}
