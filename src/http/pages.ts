import { z } from 'zod';
import type { Page } from '../projections/transfer-queries.ts';

const DEFAULT_PAGE = 25;
const LONGEST_PAGE = 100;

/** Query parameters of a list that is read page by page. */
export const pageQuery = {
  limit: wholeNumber(1, LONGEST_PAGE, DEFAULT_PAGE).describe('Results per page.'),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER, 0).describe('Results to skip.'),
};

/** What a page says beside its results. */
export const pagination = z.strictObject({
  total: z.int().describe('How many results match.'),
  limit: z.int(),
  offset: z.int(),
  has_more: z.boolean().describe('More results follow.'),
});

export function toPagination({ limit, offset }: Page, shown: number, total: number): z.output<typeof pagination> {
  return { total, limit, offset, has_more: offset + shown < total };
}

/** A query parameter that is a whole number within limits; `otherwise` where it is left out. */
export function wholeNumber(least: number, most: number, otherwise: number) {
  const message = `must be a whole number from ${least} to ${most}`;
  return (
    z
      .string()
      .regex(/^(0|[1-9]\d{0,15})$/, message)
      // On what comes before the transformation: zod drops a default that stands behind it.
      .meta({ type: 'integer', pattern: undefined, minimum: least, maximum: most, default: otherwise })
      .optional()
      .transform((value) => Number(value ?? otherwise))
      .refine((value) => value >= least && value <= most, message)
  );
}
