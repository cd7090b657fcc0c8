/** The log, or the tree over it, is not the one that was signed. The message says what differs. */
export class LogChanged extends Error {
  override readonly name = 'LogChanged';
}

/** What to do if only the tables of the tree may have been changed. */
export const PROOF_REMEDY =
  'Compare: waybill projections verify proof. If the log is as it was signed, rebuild the tables: ' +
  'waybill projections rebuild proof';
