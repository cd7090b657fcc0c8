import type { ListingError } from './flow.ts';

/** The texts of servers may name a time or a port: only code and folder say what is wrong. */
export function isSameFailure(a: ListingError | null, b: ListingError): boolean {
  return a !== null && a.code === b.code && a.folder === b.folder;
}

/**
 * Returns which failure of a listing to report; null if there is none. People may tolerate a folder
 * that always fails. So a folder that did not fail before is reported first, then the failure that
 * is `known` already.
 */
export function failureToReport(
  failures: ListingError[],
  known: ListingError | null,
  failedBefore: string[],
): ListingError | null {
  const before = new Set(failedBefore);
  return (
    (known && failures.find(({ folder }) => !before.has(folder))) ??
    failures.find((failure) => isSameFailure(known, failure)) ??
    failures[0] ??
    null
  );
}
