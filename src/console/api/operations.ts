// Made from the OpenAPI document by `npm run console-api`.

export interface Operations {
  'DELETE /v1/session': { answer: null };
  'DELETE /v1/transfers/{transfer_id}': { path: { transfer_id: string }; answer: CancelledTransfer };
  'GET /v1/events': { query?: { from?: string }; answer: unknown };
  'GET /v1/openapi.json': { answer: Record<string, unknown> };
  'GET /v1/session': { answer: Session };
  'GET /v1/transfers': { query?: { status?: "pending" | "queued" | "in_progress" | "completed" | "failed" | "cancelled"; from_date?: string; to_date?: string; destination?: string; limit?: number; offset?: number }; answer: TransferList };
  'GET /v1/transfers/{transfer_id}': { path: { transfer_id: string }; query?: { as_of?: string }; answer: TransferDetail };
  'GET /v1/transfers/{transfer_id}/events': { path: { transfer_id: string }; answer: TransferHistory };
  'POST /v1/session': { body: SignInInput; answer: Session };
  'POST /v1/transfers': { body: TransferRequestInput; answer: CreatedTransfer };
  'PUT /v1/session/account': { body: AccountChoiceInput; answer: Session };
}

export type AccountChoiceInput = {
  account: string;
};

export type AuditEvent = {
  position: string;
  stream: string;
  revision: number;
  id: string;
  type: string;
  schema_version: number;
  data: Record<string, unknown>;
  metadata: Record<string, unknown>;
};

export type CancelledTransfer = {
  id: string;
  status: "cancelled";
  cancelled_at: string;
};

export type CreatedTransfer = {
  id: string;
  status: "pending";
  source_uri: string;
  destination_uri: string;
  priority: "low" | "normal" | "high";
  created_at: string;
  estimated_start: string;
};

export type HistoryItem = {
  id: string;
  type: string;
  revision: number;
  position: string;
  occurred_at: string;
  actor: string;
  data: Record<string, unknown>;
};

export type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: "validation_failed" | "invalid_json" | "invalid_parameter" | "unknown_field" | "endpoint_not_configured" | "credentials_in_uri" | "malformed_request" | "api_key_missing" | "api_key_malformed" | "api_key_invalid" | "api_key_expired" | "api_key_revoked" | "api_key_id_used" | "session_ended" | "insufficient_scope" | "cross_site_request" | "not_found" | "method_not_allowed" | "request_timeout" | "transfer_not_cancellable" | "idempotency_in_progress" | "limit_reached" | "endpoint_in_use" | "payload_too_large" | "unsupported_media_type" | "idempotency_key_reused" | "rate_limited" | "headers_too_large" | "internal_error" | "endpoint_failed" | "unavailable";
  request_id: string;
  errors?: { field: string; code: string; message: string }[];
  required_scope?: string;
  transfer_id?: string;
  transfer_ids?: string[];
  endpoint_error?: { code: "auth_failed" | "host_key_mismatch" | "tls_error" | "connection_failed" | "timeout" | "stalled" | "source_not_found" | "source_changed" | "destination_not_found" | "permission_denied" | "disk_full" | "file_too_large" | "destination_exists" | "checksum_mismatch" | "size_mismatch" | "source_endpoint_not_configured" | "endpoint_removed" | "aborted_by_operator" | "internal_error"; message: string; advice: string };
  current_status?: string;
};

export type Readiness = {
  status: "ready" | "not_ready";
  checks: Record<string, { ok: boolean; detail: string }>;
};

export type Session = {
  key_id: string;
  key_name: string;
  account: string;
  accounts: string[];
  expires_at: string;
};

export type SignInInput = {
  api_key: string;
};

export type TransferDetail = {
  id: string;
  file_name: string;
  size_bytes: number | null;
  transferred_bytes: number;
  progress_pct: number;
  status: "pending" | "queued" | "in_progress" | "completed" | "failed" | "cancelled";
  speed_bps: number | null;
  source: string;
  destination: string;
  checksum_sha256: string | null;
  created_at: string;
  completed_at: string | null;
  retry_count: number;
  error: TransferError | null;
  priority: "low" | "normal" | "high";
  metadata: Record<string, string>;
};

export type TransferError = {
  code: "auth_failed" | "host_key_mismatch" | "tls_error" | "connection_failed" | "timeout" | "stalled" | "source_not_found" | "source_changed" | "destination_not_found" | "permission_denied" | "disk_full" | "file_too_large" | "destination_exists" | "checksum_mismatch" | "size_mismatch" | "source_endpoint_not_configured" | "endpoint_removed" | "aborted_by_operator" | "internal_error";
  message: string;
  retryable: boolean;
  phase: string;
  attempts: number;
  occurred_at: string;
  advice: string;
};

export type TransferHistory = {
  data: HistoryItem[];
};

export type TransferList = {
  data: TransferListItem[];
  pagination: { total: number; limit: number; offset: number; has_more: boolean };
};

export type TransferListItem = {
  id: string;
  file_name: string;
  size_bytes: number | null;
  status: "pending" | "queued" | "in_progress" | "completed" | "failed" | "cancelled";
  source: string;
  destination: string;
  created_at: string;
  completed_at: string | null;
};

export type TransferRequestInput = {
  source_uri: string;
  destination_uri: string;
  priority?: "low" | "normal" | "high";
  notify_on_complete?: boolean;
  metadata?: Record<string, string>;
};
