/** Work of an account that waits for a place, or has one. */
export interface OfAccount {
  accountId: string;
}

/**
 * Returns the first that waits, of the accounts that have the fewest places; null if no account
 * that waits may have another one. An account has `most` places at most.
 */
export function nextOfAccounts<Waiting extends OfAccount>(
  waiting: readonly Waiting[],
  underWay: readonly OfAccount[],
  most: number,
): Waiting | null {
  const placesOf = ({ accountId }: OfAccount) =>
    underWay.filter((work) => work.accountId === accountId).length;
  const [first] = waiting
    .filter((work) => placesOf(work) < most)
    .sort((a, b) => placesOf(a) - placesOf(b));
  return first ?? null;
}
