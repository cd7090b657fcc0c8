/** The read models. A writer names the one that must show what it wrote. */
export type ProjectionName =
  | 'transfers'
  | 'batches'
  | 'flows'
  | 'catalog'
  | 'transfer_search'
  | 'audit'
  | 'proof';
