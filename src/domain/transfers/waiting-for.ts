/**
 * Why a transfer does not move. If several reasons apply, it has the first one. The words are part
 * of the API: clients compare them.
 */
export const WAITING_REASONS = [
  'read_model_behind',
  'no_mover',
  'dispatch_behind',
  'previous_lease',
  'catalog_behind',
  'endpoint_paused',
  'retry_at',
  'sign_ins_on_hold',
  'endpoint_full',
  'fair_share',
  'movers_busy',
  'starting',
] as const;
export type WaitingReason = (typeof WAITING_REASONS)[number];

export interface WaitingFor {
  reason: WaitingReason;
  /** Plain English, one or two sentences. */
  message: string;
  /** Time of the next attempt, or end of the lease or hold, ISO 8601. Null for other reasons. */
  until: string | null;
  /** The endpoint in question. Null for other reasons, and if the account may not use it. */
  endpoint_id: string | null;
  /** Transfers of all accounts that use the endpoint. Null unless it is full. */
  in_use: number | null;
  /** Transfers that may use the endpoint at once. Null unless it is full. */
  limit: number | null;
}
