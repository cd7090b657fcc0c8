import type { ContentHeaders } from '../port.ts';

/** What a header may have unencoded. A signature covers its value as it is sent. */
export const PLAIN_VALUE = /^[!-~]+( [!-~]+)*$/;
const MAX_CHARACTERS = 1_024;

/**
 * Returns the headers of an object that its copy gets. Leaves out a value that a server may reject
 * or change: the file is worth more than its header.
 */
export function contentHeaders(given: ContentHeaders): ContentHeaders {
  // Some servers store how the upload was encoded on its way.
  const contentEncoding = given.contentEncoding
    ?.split(',')
    .filter((coding) => coding.trim().toLowerCase() !== 'aws-chunked')
    .join(',')
    .trim();
  return Object.fromEntries(
    Object.entries({ ...given, contentEncoding }).filter(
      ([, value]) => value && PLAIN_VALUE.test(value) && value.length <= MAX_CHARACTERS,
    ),
  );
}
