import type { BulkAnswer } from '../../contract/transfers/bulk.ts';
import type { Columns } from '../program/output.ts';

/** The columns of transfers that a change was refused for. */
export const REFUSAL_COLUMNS: Columns<BulkAnswer['refusals'][number]> = {
  ID: ({ id }) => id,
  CODE: ({ code }) => code,
  WHY: ({ detail }) => detail,
};
