import { z } from 'zod';

export const DEFAULT_PAGE = 25;
export const LONGEST_PAGE = 100;

/** Query parameters of a list with pages. */
export const pageQuery = {
  limit: wholeNumber(1, LONGEST_PAGE, DEFAULT_PAGE).describe('Results per page.'),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER, 0).describe('Results to skip.'),
};

/** The part of a page beside its results. */
export const pagination = z
  .strictObject({
    total: z.int().describe('Number of matching results.'),
    limit: z.int(),
    offset: z.int(),
    has_more: z.boolean().describe('True if more results follow.'),
  })
  .meta({ id: 'Pagination' });

/** Returns the answer for a page of a list that has `total` results. */
export function toPage<Item>(
  data: Item[],
  { limit, offset }: { limit: number; offset: number },
  total: number,
): { data: Item[]; pagination: z.output<typeof pagination> } {
  return { data, pagination: { total, limit, offset, has_more: offset + data.length < total } };
}

/** The total of a list of a large table stops here: each counted row costs time. */
export const COUNTED_TO = 10_000;

/** The part of a page beside its results, where the total stops at `COUNTED_TO`. */
export const countedPagination = pagination
  .extend({
    total: z
      .int()
      .describe(
        `Number of matching results, counted up to ${COUNTED_TO.toLocaleString('en')}: ` +
          'there may be more.',
      ),
  })
  .meta({ id: 'CountedPagination' });

/** The part of a page beside its results, where the results may be those of a search. */
export const searchPagination = pagination
  .extend({
    total_is_exact: z
      .boolean()
      .optional()
      .describe(
        'Only with `q`. False if more than `total` may match: a search counts to 10,000, or less ' +
          'if that takes too long.',
      ),
  })
  .meta({ id: 'SearchPagination' });

/** Does the same as `toPage`. `totalIsExact` is undefined unless it is a search. */
export function toSearchPage<Item>(
  data: Item[],
  page: { limit: number; offset: number },
  { total, totalIsExact }: { total: number; totalIsExact?: boolean },
): { data: Item[]; pagination: z.output<typeof searchPagination> } {
  const { pagination } = toPage(data, page, total);
  if (totalIsExact === undefined) return { data, pagination };
  return { data, pagination: { ...pagination, total_is_exact: totalIsExact } };
}

/**
 * Returns the schema of a query parameter that is a whole number within limits. `otherwise` is its
 * default.
 */
export function wholeNumber(least: number, most: number, otherwise: number) {
  const message = `must be a whole number from ${least} to ${most}`;
  return (
    z
      .string()
      .regex(/^(0|[1-9]\d{0,15})$/, message)
      // Set before the transformation: zod drops a default that follows it.
      .meta({
        type: 'integer',
        pattern: undefined,
        minimum: least,
        maximum: most,
        default: otherwise,
      })
      .optional()
      .transform((value) => Number(value ?? otherwise))
      .refine((value) => value >= least && value <= most, message)
  );
}
