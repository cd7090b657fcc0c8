// Made from the OpenAPI document by `npm run console-api`.

export interface Operations {
  'DELETE /v1/batches/{batch_id}': { path: { batch_id: string }; answer: CancelledBatch };
  'DELETE /v1/endpoints/{endpoint_id}': { path: { endpoint_id: string }; answer: null };
  'DELETE /v1/flows/{flow_id}': { path: { flow_id: string }; answer: RemovedFlow };
  'DELETE /v1/session': { answer: null };
  'DELETE /v1/transfers/{transfer_id}': { path: { transfer_id: string }; answer: CancelledTransfer };
  'DELETE /v1/webhooks/{webhook_id}': { path: { webhook_id: string }; answer: null };
  'GET /v1/audit': { query?: { kind?: AuditKind; type?: AuditEventType; actor?: string; subject?: string; from_date?: string; to_date?: string; limit?: number; offset?: number }; answer: AuditList };
  'GET /v1/batches': { query?: { status?: BatchStatus; limit?: number; offset?: number }; answer: BatchList };
  'GET /v1/batches/{batch_id}': { path: { batch_id: string }; answer: Batch };
  'GET /v1/batches/{batch_id}/rejected': { path: { batch_id: string }; query?: { limit?: number; offset?: number }; answer: RejectedItems };
  'GET /v1/checkpoints': { query?: { limit?: number; offset?: number }; answer: LogCheckpointList };
  'GET /v1/checkpoints/latest': { answer: LogCheckpoint };
  'GET /v1/checkpoints/sinks': { answer: LogCheckpointSinkList };
  'GET /v1/checkpoints/{size}': { path: { size: string }; answer: LogCheckpoint };
  'GET /v1/checkpoints/{size}/consistency': { path: { size: string }; query: { from: string }; answer: LogConsistency };
  'GET /v1/deliveries': { query?: { status?: DeliveryStatus; webhook_id?: string; account?: string; limit?: number; offset?: number }; answer: DeliveryList };
  'GET /v1/deliveries/{delivery_id}': { path: { delivery_id: string }; answer: DeliveryDetail };
  'GET /v1/endpoints': { query?: { q?: string }; answer: EndpointList };
  'GET /v1/endpoints/{endpoint_id}': { path: { endpoint_id: string }; answer: Endpoint };
  'GET /v1/endpoints/{endpoint_id}/files': { path: { endpoint_id: string }; query?: { path?: string }; answer: FileList };
  'GET /v1/events': { query?: { from?: string; stream?: string }; answer: unknown };
  'GET /v1/flows': { query?: { status?: FlowStatus; q?: string; limit?: number; offset?: number }; answer: FlowList };
  'GET /v1/flows/{flow_id}': { path: { flow_id: string }; answer: Flow };
  'GET /v1/flows/{flow_id}/files': { path: { flow_id: string }; query?: { limit?: number; offset?: number }; answer: FlowFileList };
  'GET /v1/flows/{flow_id}/runs': { path: { flow_id: string }; query?: { limit?: number; offset?: number }; answer: FlowRunList };
  'GET /v1/keys': { answer: KeyList };
  'GET /v1/log/keys': { answer: LogSigningKeyList };
  'GET /v1/movers': { answer: Movers };
  'GET /v1/openapi.json': { answer: OpenApiDocument };
  'GET /v1/operations/series': { query?: { hours?: number }; answer: OperationsSeries };
  'GET /v1/projections': { answer: ProjectionList };
  'GET /v1/projections/live': { answer: unknown };
  'GET /v1/projections/{name}': { path: { name: string }; answer: Projection };
  'GET /v1/session': { answer: Session };
  'GET /v1/session/options': { answer: SignInOptions };
  'GET /v1/transfers': { query?: { q?: string; status?: TransferStatus; error_code?: TransferErrorCode; error_endpoint_id?: string; from_date?: string; to_date?: string; destination?: string; retry_of?: string; batch_id?: string; retried?: boolean; sort?: TransferSort; limit?: number; offset?: number }; answer: TransferList };
  'GET /v1/transfers/live': { query?: { transfer_id?: string }; answer: unknown };
  'GET /v1/transfers/series': { query?: { from_date?: string; to_date?: string }; answer: TransferSeries };
  'GET /v1/transfers/summary': { query?: { from_date?: string; to_date?: string }; answer: TransferSummary };
  'GET /v1/transfers/{transfer_id}': { path: { transfer_id: string }; query?: { as_of?: string }; answer: TransferDetail };
  'GET /v1/transfers/{transfer_id}/events': { path: { transfer_id: string }; answer: TransferHistory };
  'GET /v1/transfers/{transfer_id}/receipt': { path: { transfer_id: string }; query?: { wait?: number }; answer: Receipt };
  'GET /v1/webhooks': { answer: WebhookList };
  'GET /v1/webhooks/{webhook_id}': { path: { webhook_id: string }; answer: Webhook };
  'GET /v1/webhooks/{webhook_id}/deliveries': { path: { webhook_id: string }; query?: { status?: DeliveryStatus; limit?: number; offset?: number }; answer: DeliveryList };
  'GET /v1/webhooks/{webhook_id}/deliveries/{delivery_id}': { path: { webhook_id: string; delivery_id: string }; answer: DeliveryDetail };
  'PATCH /v1/flows/{flow_id}': { path: { flow_id: string }; body: FlowChanges; answer: Flow };
  'PATCH /v1/transfers/{transfer_id}': { path: { transfer_id: string }; body: TransferChange; answer: TransferDetail };
  'PATCH /v1/webhooks/{webhook_id}': { path: { webhook_id: string }; body: WebhookChanges; answer: Webhook };
  'POST /v1/batches': { body: BatchRequest; answer: CreatedBatch };
  'POST /v1/batches/{batch_id}/retry': { path: { batch_id: string }; answer: Batch };
  'POST /v1/checkpoints': { answer: LogCheckpoint };
  'POST /v1/deliveries/retry-failed': { body: RetryFailedRequest; answer: RetriedDeliveries };
  'POST /v1/deliveries/{delivery_id}/retry': { path: { delivery_id: string }; answer: Delivery };
  'POST /v1/endpoints': { body: EndpointRequest; answer: Endpoint };
  'POST /v1/endpoints/test': { body: EndpointRequest; answer: unknown };
  'POST /v1/endpoints/{endpoint_id}/accept-host-key': { path: { endpoint_id: string }; body: HostKeyRequest; answer: Endpoint };
  'POST /v1/endpoints/{endpoint_id}/pause': { path: { endpoint_id: string }; answer: Endpoint };
  'POST /v1/endpoints/{endpoint_id}/resume': { path: { endpoint_id: string }; answer: Endpoint };
  'POST /v1/endpoints/{endpoint_id}/test': { path: { endpoint_id: string }; body: EndpointUpdate; answer: unknown };
  'POST /v1/flows': { body: FlowRequest; answer: Flow };
  'POST /v1/flows/{flow_id}/pause': { path: { flow_id: string }; answer: Flow };
  'POST /v1/flows/{flow_id}/resume': { path: { flow_id: string }; answer: Flow };
  'POST /v1/flows/{flow_id}/runs': { path: { flow_id: string }; body: RunRequest; answer: RunAnswer };
  'POST /v1/keys': { body: KeyRequest; answer: CreatedKey };
  'POST /v1/keys/{key_id}/revoke': { path: { key_id: string }; answer: Key };
  'POST /v1/projections/{name}/rebuild': { path: { name: string }; answer: Projection };
  'POST /v1/projections/{name}/verify': { path: { name: string }; answer: Projection };
  'POST /v1/session': { body: SignIn; answer: Session };
  'POST /v1/transfers': { body: TransferRequest; answer: CreatedTransfer };
  'POST /v1/transfers/bulk': { body: BulkRequest; answer: BulkAnswer };
  'POST /v1/transfers/{transfer_id}/abort': { path: { transfer_id: string }; answer: TransferDetail };
  'POST /v1/transfers/{transfer_id}/retry': { path: { transfer_id: string }; answer: RetriedTransfer };
  'POST /v1/webhooks': { body: WebhookRequest; answer: WebhookWithSecret };
  'POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver': { path: { webhook_id: string; delivery_id: string }; answer: Delivery };
  'POST /v1/webhooks/{webhook_id}/ping': { path: { webhook_id: string }; answer: Delivery };
  'POST /v1/webhooks/{webhook_id}/replay': { path: { webhook_id: string }; body: ReplayRequest; answer: AcceptedReplay };
  'POST /v1/webhooks/{webhook_id}/retry-failed': { path: { webhook_id: string }; answer: RetriedDeliveries };
  'POST /v1/webhooks/{webhook_id}/rotate-secret': { path: { webhook_id: string }; body: SecretRotation; answer: WebhookWithSecret };
  'PUT /v1/endpoints/{endpoint_id}': { path: { endpoint_id: string }; body: EndpointUpdate; answer: Endpoint };
  'PUT /v1/session/account': { body: AccountChoice; answer: Session };
}

export type AcceptedHostKey = {
  sha256: string;
  expires_at: string | null;
};

export type AcceptedReplay = {
  accepted: boolean;
};

export type AccountChoice = {
  account: string;
};

export type After = {
  source: unknown;
  destination_marker: string | null;
};

export type AfterReason = {
  code: AfterReasonCode;
  message: string;
};

export type AfterReasonCode = "auth_failed" | "host_key_mismatch" | "tls_error" | "connection_failed" | "timeout" | "stalled" | "source_not_found" | "source_changed" | "source_replaced" | "size_unknown" | "destination_not_found" | "permission_denied" | "disk_full" | "file_too_large" | "destination_exists" | "destination_changed" | "destination_is_source" | "checksum_mismatch" | "size_mismatch" | "source_endpoint_not_configured" | "endpoint_removed" | "aborted_by_operator" | "internal_error" | "no_source_version" | "marker_failed";

export type AfterRequest = {
  source?: unknown;
  destination_marker?: string | null;
};

export type AfterState = "waiting" | "pending" | "done" | "not_done";

export type AfterTransfer = {
  source: unknown;
  destination_marker: string | null;
  state: AfterState;
  marker: string | null;
  moved_to: string | null;
  reason: AfterReason | null;
  ended_at: string | null;
};

export type AnnouncedHostKey = {
  sha256: string;
  key_type: string;
  announced_at: string;
};

export type AnyAuditKind = "transfer" | "batch" | "flow" | "endpoint" | "key" | "webhook" | "access" | "log";

export type AnyScope = "transfers:read" | "transfers:write" | "flows:read" | "flows:write" | "webhooks:read" | "webhooks:write" | "audit:read" | "metrics:read" | "observe" | "operate" | "audit:all" | "admin";

export type AnyWebhookEventType = "transfer.created" | "transfer.in_progress" | "transfer.completed" | "transfer.failed" | "transfer.cancelled" | "transfer.marker_written" | "transfer.marker_failed" | "transfer.source_deleted" | "transfer.source_moved" | "transfer.source_kept" | "batch.completed" | "flow.run_completed" | "flow.run_failed" | "flow.recovered" | "endpoint.connectivity_lost" | "key.expiring_soon" | "log.checkpoint";

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

export type AuditEventType = "transfer.created" | "transfer.failed" | "transfer.cancelled" | "transfer.priority_changed" | "batch.created" | "batch.cancelled" | "flow.created" | "flow.updated" | "flow.paused" | "flow.resumed" | "flow.removed" | "flow.run_requested" | "flow.run_failed" | "flow.recovered" | "endpoint.configured" | "endpoint.updated" | "endpoint.credentials_replaced" | "endpoint.paused" | "endpoint.resumed" | "endpoint.removed" | "endpoint.connectivity_lost" | "endpoint.connectivity_restored" | "endpoint.host_key_announced" | "key.created" | "key.revoked" | "key.expiring_soon" | "webhook.registered" | "webhook.updated" | "webhook.secret_rotated" | "webhook.removed" | "access.exported" | "access.history_read" | "access.receipt_read" | "access.sign_in_failed" | "log.key_created" | "log.key_rotated" | "log.retention_recorded";

export type AuditItem = {
  id: string;
  occurred_at: string;
  actor: string;
  actor_name: string | null;
  client_address: string | null;
  type: AuditEventType;
  title: string;
  subject: AuditSubject;
  account: string | null;
  data: Record<string, unknown>;
  stream: string;
  revision: number;
  position: string;
};

export type AuditKind = "transfer" | "batch" | "flow" | "endpoint" | "key" | "webhook" | "access" | "log";

export type AuditList = {
  data: AuditItem[];
  pagination: CountedPagination;
};

export type AuditSubject = {
  kind: AnyAuditKind;
  id: string;
  name: string | null;
};

export type AzureEndpoint = {
  name: string;
  max_connections: number;
  accounts: string[] | null;
  overwrite: boolean;
  bandwidth: Bandwidth | null;
  protocol: "azure";
  account: string;
  container: string;
  prefix: string;
  endpoint_url: string | null;
  ca_pem: string | null;
  via: EndpointVia | null;
  id: string;
  has_credentials: SignInKind;
  bandwidth_now: number | null;
  paused: boolean;
  unreachable_since: string | null;
  health: EndpointHealth | null;
  revision: number;
  configured_at: string;
};

export type AzureEndpointRequest = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "azure";
  account: string;
  container: string;
  prefix?: string;
  endpoint_url?: string | null;
  account_key?: string;
  sas_token?: string;
  ca_pem?: string | null;
  via?: ViaProxy | null;
};

export type AzureEndpointUpdate = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "azure";
  account: string;
  container: string;
  prefix?: string;
  endpoint_url?: string | null;
  account_key?: string;
  sas_token?: string;
  ca_pem?: string | null;
  via?: ViaProxy | null;
};

export type Bandwidth = {
  bytes_per_second: number | null;
  windows: BandwidthWindow[];
};

export type BandwidthRequest = {
  bytes_per_second?: number | null;
  windows?: BandwidthWindowRequest[];
};

export type BandwidthWindow = {
  days: Day[];
  from: string;
  to: string;
  time_zone: string;
  bytes_per_second: number | null;
};

export type BandwidthWindowRequest = {
  days?: Day[];
  from: string;
  to: string;
  time_zone?: string;
  bytes_per_second: number | null;
};

export type Batch = {
  id: string;
  status: BatchStatus;
  folder: BatchFolder | null;
  retry_of: string | null;
  flow_id: string | null;
  priority: Priority;
  notify_on_complete: boolean;
  metadata: Record<string, string>;
  after?: After;
  verify?: VerifyMethod;
  preserve_mtime?: boolean;
  failing: BatchFailure | null;
  counts: BatchCounts;
  bytes: BatchBytes;
  created_at: string;
  ended_at: string | null;
};

export type BatchBytes = {
  total: number;
  completed: number;
};

export type BatchCompletedCounts = {
  items: number;
  completed: number;
  failed: number;
  cancelled: number;
};

export type BatchCompletedData = {
  batch_id: string;
  status: BatchOutcome;
  counts: BatchCompletedCounts;
  bytes: number;
  created_at: string;
  ended_at: string;
};

export type BatchCompletedPayload = {
  id: string;
  type: "batch.completed";
  created_at: string;
  data: BatchCompletedData;
};

export type BatchCounts = {
  items: number;
  pending: number;
  queued: number;
  in_progress: number;
  completed: number;
  failed: number;
  cancelled: number;
  rejected: number;
};

export type BatchFailure = {
  since: string;
  error: ListingError;
};

export type BatchFolder = {
  source_uri: string;
  destination_uri: string;
  pattern: string;
  recursive: boolean;
  exclude: string[];
};

export type BatchItem = {
  source_uri: string;
  destination_uri: string;
  priority?: Priority;
  metadata?: Record<string, string> | null;
  expected_sha256?: string;
  verify?: VerifyMethod;
  preserve_mtime?: boolean;
};

export type BatchList = {
  data: Batch[];
  pagination: Pagination;
};

export type BatchOutcome = "completed" | "completed_with_failures" | "cancelled";

export type BatchRequest = {
  items?: BatchItem[];
  source_uri?: string;
  destination_uri?: string;
  pattern?: string;
  recursive?: boolean;
  exclude?: string[];
  priority?: Priority;
  notify_on_complete?: boolean;
  metadata?: Record<string, string> | null;
  after?: AfterRequest | null;
  verify?: VerifyMethod;
  preserve_mtime?: boolean;
};

export type BatchStatus = "creating" | "open" | "completed" | "completed_with_failures" | "cancelled";

export type BulkAction = "retry" | "cancel" | "set_priority";

export type BulkAnswer = {
  action: BulkAction;
  matched: number;
  done: number;
  refused: number;
  has_more: boolean;
  continue_from: string | null;
  retries: BulkRetry[];
  refusals: BulkRefusal[];
};

export type BulkRefusal = {
  id: string;
  code: ProblemCode;
  detail: string;
};

export type BulkRequest = {
  action: BulkAction;
  ids?: string[];
  filter?: TransferFilters;
  continue_from?: string;
  priority?: Priority;
};

export type BulkRetry = {
  id: string;
  retry_of: string;
};

export type CancelledBatch = {
  id: string;
  status: "cancelled";
  cancelled_at: string;
  cancelled: number;
  not_cancelled: BulkRefusal[];
  has_more: boolean;
};

export type CancelledTransfer = {
  id: string;
  status: "cancelled";
  cancelled_at: string;
};

export type ConnectivityError = {
  code: TransferErrorCode;
  message: string;
};

export type CountedPagination = {
  total: number;
  limit: number;
  offset: number;
  has_more: boolean;
};

export type CreatedBatch = {
  id: string;
  status: BatchStatus;
  folder: BatchFolder | null;
  retry_of: string | null;
  flow_id: string | null;
  priority: Priority;
  notify_on_complete: boolean;
  metadata: Record<string, string>;
  after?: After;
  verify?: VerifyMethod;
  preserve_mtime?: boolean;
  failing: BatchFailure | null;
  counts: BatchCounts;
  bytes: BatchBytes;
  created_at: string;
  ended_at: string | null;
  transfer_ids?: string[];
};

export type CreatedKey = {
  id: string;
  name: string;
  account: string;
  scopes: AnyScope[];
  role: Role | null;
  last_four: string;
  status: KeyStatus;
  expiring_soon: boolean;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  key?: string;
};

export type CreatedTransfer = {
  id: string;
  status: "pending";
  source_uri: string;
  destination_uri: string;
  priority: Priority;
  created_at: string;
  estimated_start: string;
};

export type Day = "mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun";

export type Delivery = {
  id: string;
  webhook_id: string;
  webhook_url: string | null;
  account_id: string;
  event_id: string;
  event_type: string;
  transfer_id: string | null;
  status: DeliveryStatus;
  attempts: number;
  created_at: string;
  next_attempt_at: string | null;
  delivered_at: string | null;
  last_status_code: number | null;
  last_error: string | null;
};

export type DeliveryAttempt = {
  number: number;
  at: string;
  duration_ms: number;
  status_code: number | null;
  error: string | null;
  response_body: string | null;
};

export type DeliveryDetail = {
  id: string;
  webhook_id: string;
  webhook_url: string | null;
  account_id: string;
  event_id: string;
  event_type: string;
  transfer_id: string | null;
  status: DeliveryStatus;
  attempts: number;
  created_at: string;
  next_attempt_at: string | null;
  delivered_at: string | null;
  last_status_code: number | null;
  last_error: string | null;
  body: string;
  attempt_list: DeliveryAttempt[];
  request: DeliveryRequest | null;
};

export type DeliveryList = {
  data: Delivery[];
  pagination: CountedPagination;
};

export type DeliveryRequest = {
  url: string;
  headers: Record<string, string>;
};

export type DeliveryStatus = "pending" | "delivered" | "failed";

export type DescribedFile = {
  size_bytes: number;
  version: string | null;
};

export type DryRunCounts = {
  take: number;
  wait: number;
  taken: number;
  reject: number;
};

export type DryRunDecision = "take" | "wait" | "taken" | "reject";

export type DryRunFile = {
  path: string;
  size: number | null;
  modified_at: string | null;
  decision: DryRunDecision;
  reason: string;
  destination_uri: string | null;
};

export type Endpoint = 
  | SftpEndpoint
  | FtpsEndpoint
  | S3Endpoint
  | AzureEndpoint;

export type EndpointConnectivityLostData = {
  endpoint_id: string;
  name: string;
  protocol: Protocol;
  host: string;
  last_success_at: string | null;
  detected_at: string;
  error: ConnectivityError;
};

export type EndpointConnectivityLostPayload = {
  id: string;
  type: "endpoint.connectivity_lost";
  created_at: string;
  data: EndpointConnectivityLostData;
};

export type EndpointError = {
  code: TransferErrorCode;
  message: string;
  advice: string;
};

export type EndpointFailures = {
  endpoint_id: string;
  name: string | null;
  transfers: number;
  first_failed_at: string;
  last_failed_at: string;
};

export type EndpointHealth = {
  failures_in_row: number;
  successes_in_row: number;
  last_success_at: string | null;
  last_probe_at: string | null;
  latency_ms: number | null;
  fingerprint: string | null;
  error: EndpointHealthError | null;
  error_since: string | null;
};

export type EndpointHealthError = {
  code: TransferErrorCode;
  message: string;
  advice: string;
};

export type EndpointList = {
  data: (SftpEndpoint | FtpsEndpoint | S3Endpoint | AzureEndpoint)[];
};

export type EndpointRequest = 
  | SftpEndpointRequest
  | FtpsEndpointRequest
  | S3EndpointRequest
  | AzureEndpointRequest;

export type EndpointTestLine = 
  | EndpointTestStep
  | EndpointTestResult;

export type EndpointTestResult = {
  type: "result";
  ok: boolean;
  fingerprint: string | null;
  write_bps: number | null;
  read_bps: number | null;
};

export type EndpointTestStep = {
  type: "step";
  step: EndpointTestStepName;
  ok: boolean;
  ms: number;
  at: string;
  detail?: string;
  code?: TransferErrorCode;
  message?: string;
  advice?: string;
};

export type EndpointTestStepName = "resolve" | "via" | "connect" | "sign_in" | "list" | "write" | "rename" | "read" | "remove";

export type EndpointUpdate = 
  | SftpEndpointUpdate
  | FtpsEndpointUpdate
  | S3EndpointUpdate
  | AzureEndpointUpdate;

export type EndpointVia = {
  type: ViaType;
  host: string;
  port: number;
  username: string | null;
  host_keys: AcceptedHostKey[] | null;
};

export type FieldError = {
  field: string;
  code: string;
  message: string;
};

export type FileList = {
  path: string;
  data: FileListItem[];
  truncated: boolean;
};

export type FileListItem = {
  name: string;
  type: FileType;
  size: number | null;
  modified_at: string | null;
};

export type FileType = "file" | "directory" | "other";

export type Flow = {
  id: string;
  name: string;
  status: FlowStatus;
  source: FlowFolder;
  ready: FlowReady;
  trigger: FlowTrigger | null;
  destination_uri: string;
  priority: Priority;
  metadata: Record<string, string>;
  after: After | null;
  start: FlowStart;
  created_at: string;
  updated_at: string;
  last_run_at: string | null;
  last_success_at: string | null;
  next_run_at: string | null;
  delayed_by: string | null;
  waiting_files: number;
  failing: FlowFailure | null;
  recent_runs: FlowRun[];
};

export type FlowChanges = {
  name?: string;
  source?: FlowSource;
  ready?: FlowReadyRequest;
  trigger?: FlowTriggerRequest | null;
  destination_uri?: string;
  priority?: Priority;
  metadata?: Record<string, string> | null;
  after?: AfterRequest | null;
};

export type FlowFailure = {
  since: string;
  error: ListingError;
};

export type FlowFile = {
  source_uri: string;
  version: string;
  status: FlowFileStatus;
  attempts: number;
  run_id: string | null;
  transfer_id: string | null;
  error: FlowFileError | null;
  taken_at: string;
};

export type FlowFileError = {
  code: string;
  message: string;
};

export type FlowFileList = {
  data: FlowFile[];
  pagination: Pagination;
};

export type FlowFileStatus = "pending" | "queued" | "in_progress" | "completed" | "failed" | "cancelled" | "rejected" | "skipped" | "removed";

export type FlowFolder = {
  uri: string;
  pattern: string;
  exclude: string[];
  recursive: boolean;
};

export type FlowList = {
  data: Flow[];
  pagination: Pagination;
};

export type FlowReady = {
  unchanged_for: string | null;
  marker: string | null;
};

export type FlowReadyRequest = {
  unchanged_for?: string | null;
  marker?: string | null;
};

export type FlowRecoveredData = {
  flow_id: string;
  name: string;
  failed_since: string;
  recovered_at: string;
};

export type FlowRecoveredPayload = {
  id: string;
  type: "flow.recovered";
  created_at: string;
  data: FlowRecoveredData;
};

export type FlowRequest = {
  name: string;
  source: FlowSource;
  ready?: FlowReadyRequest;
  trigger?: FlowTriggerRequest | null;
  destination_uri: string;
  priority?: Priority;
  metadata?: Record<string, string> | null;
  after?: AfterRequest | null;
  enabled?: boolean;
  start?: FlowStart;
};

export type FlowRun = {
  id: string;
  status: FlowRunStatus;
  reason: FlowRunReason;
  batch_id: string | null;
  error: ListingError | null;
  counts: FlowRunCounts | null;
  bytes: number | null;
  started_at: string;
  ended_at: string | null;
};

export type FlowRunCompletedCounts = {
  files: number;
  completed: number;
  failed: number;
  cancelled: number;
};

export type FlowRunCompletedData = {
  flow_id: string;
  name: string;
  run_id: string;
  batch_id: string;
  status: BatchOutcome;
  counts: FlowRunCompletedCounts;
  bytes: number;
  started_at: string;
  ended_at: string;
};

export type FlowRunCompletedPayload = {
  id: string;
  type: "flow.run_completed";
  created_at: string;
  data: FlowRunCompletedData;
};

export type FlowRunCounts = {
  files: number;
  completed: number;
  failed: number;
  cancelled: number;
};

export type FlowRunFailedData = {
  flow_id: string;
  name: string;
  run_id: string;
  error: FlowRunFailedError;
  failed_at: string;
};

export type FlowRunFailedError = {
  code: string;
  message: string;
  folder: string;
};

export type FlowRunFailedPayload = {
  id: string;
  type: "flow.run_failed";
  created_at: string;
  data: FlowRunFailedData;
};

export type FlowRunList = {
  data: FlowRun[];
  pagination: Pagination;
};

export type FlowRunReason = "schedule" | "request";

export type FlowRunStatus = "requested" | "listing" | "open" | "completed" | "completed_with_failures" | "cancelled" | "empty" | "failed";

export type FlowSource = {
  uri: string;
  pattern?: string;
  exclude?: string[];
  recursive?: boolean;
};

export type FlowStart = "now" | "new_only";

export type FlowStatus = "active" | "paused";

export type FlowTrigger = {
  every: string | null;
  cron: string | null;
  time_zone: string | null;
};

export type FlowTriggerRequest = {
  every?: string | null;
  cron?: string | null;
  time_zone?: string | null;
};

export type FtpsEndpoint = {
  name: string;
  max_connections: number;
  accounts: string[] | null;
  overwrite: boolean;
  bandwidth: Bandwidth | null;
  protocol: "ftps";
  host: string;
  base_path: string;
  username: string;
  tls: FtpsTls;
  ca_pem: string | null;
  port: number;
  id: string;
  has_credentials: SignInKind;
  bandwidth_now: number | null;
  paused: boolean;
  unreachable_since: string | null;
  health: EndpointHealth | null;
  revision: number;
  configured_at: string;
};

export type FtpsEndpointRequest = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "ftps";
  host: string;
  port?: number;
  base_path?: string;
  username: string;
  password: string;
  tls?: FtpsTls;
  ca_pem?: string | null;
};

export type FtpsEndpointUpdate = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "ftps";
  host: string;
  port?: number;
  base_path?: string;
  username: string;
  password?: string;
  tls?: FtpsTls;
  ca_pem?: string | null;
};

export type FtpsTls = "explicit" | "implicit";

export type HistoryItem = {
  position: string;
  stream: string;
  revision: number;
  id: string;
  type: string;
  schema_version: number;
  data: Record<string, unknown>;
  metadata: Record<string, unknown>;
  occurred_at: string;
  actor: string;
};

export type HostKey = {
  sha256: string;
  expires_at?: string | null;
};

export type HostKeyRequest = {
  host_key_sha256: string;
};

export type Key = {
  id: string;
  name: string;
  account: string;
  scopes: AnyScope[];
  role: Role | null;
  last_four: string;
  status: KeyStatus;
  expiring_soon: boolean;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
};

export type KeyExpiringSoonData = {
  key_id: string;
  name: string;
  expires_at: string;
  days_remaining: number;
};

export type KeyExpiringSoonPayload = {
  id: string;
  type: "key.expiring_soon";
  created_at: string;
  data: KeyExpiringSoonData;
};

export type KeyList = {
  data: Key[];
};

export type KeyRequest = {
  name: string;
  scopes?: Scope[];
  role?: Role;
  account?: string;
  expires_in?: string;
};

export type KeyStatus = "active" | "expired" | "revoked";

export type ListingError = {
  code: string;
  message: string;
  folder: string;
};

export type LiveTransfer = {
  id: string;
  file_name: string;
  size_bytes: number | null;
  transferred_bytes: number;
  progress_pct: number;
  status: TransferStatus;
  speed_bps: number | null;
  source: string;
  destination: string;
  checksum_sha256: string | null;
  created_at: string;
  completed_at: string | null;
  ended_at: string | null;
  retry_count: number;
  error: TransferError | null;
  priority: Priority;
  metadata: Record<string, string>;
  retry_of: string | null;
  batch_id: string | null;
  expected_sha256?: string;
  verify?: VerifyMethod;
  preserve_mtime?: boolean;
  waiting_for: WaitingFor | null;
  after?: AfterTransfer;
  account: string;
  seconds_left: number | null;
};

export type LiveTransfers = {
  transfers: LiveTransfer[];
  more_ended: number;
};

export type Liveness = {
  status: "live";
};

export type LogCheckpoint = {
  size: number;
  root_hash: string;
  key_id: string;
  note: string;
  signed_at: string;
};

export type LogCheckpointData = {
  size: number;
  root_hash: string;
  key_id: string;
  note: string;
  signed_at: string;
};

export type LogCheckpointList = {
  data: LogCheckpoint[];
  pagination: Pagination;
};

export type LogCheckpointPayload = {
  id: string;
  type: "log.checkpoint";
  created_at: string;
  data: LogCheckpointData;
};

export type LogCheckpointSink = {
  url: string;
  state: LogCheckpointSinkState;
  size: number | null;
  taken_at: string | null;
  error: string | null;
  next_try_at: string | null;
};

export type LogCheckpointSinkList = {
  data: LogCheckpointSink[];
};

export type LogCheckpointSinkState = "unknown" | "keeps" | "retries" | "refuses";

export type LogConsistency = {
  from: number;
  size: number;
  proof: string[];
};

export type LogSigningKey = {
  key_id: string;
  public_key: string;
  since: string;
  until: string | null;
  statement: string;
  signed_by_previous: boolean | null;
};

export type LogSigningKeyList = {
  origin: string;
  data: LogSigningKey[];
};

export type Mover = {
  id: string;
  slots: number;
  active: number;
  mean_duration_ms: number | null;
  started_at: string;
  seen_at: string;
};

export type Movers = {
  data: Mover[];
  queue: QueueLength[];
};

export type OpenApiDocument = Record<string, unknown>;

export type OperationsSeries = {
  data: OperationsSpan[];
};

export type OperationsSpan = {
  at: string;
  seconds: number;
  created: number;
  completed: number;
  failed: number;
  cancelled: number;
  waiting: number;
  moving: number;
  moved_bytes: number;
  speed_bps: number;
};

export type Pagination = {
  total: number;
  limit: number;
  offset: number;
  has_more: boolean;
};

export type Person = {
  subject: string;
  name: string | null;
  email: string | null;
};

export type PingData = {
  webhook_id: string;
};

export type PingPayload = {
  id: string;
  type: "ping";
  created_at: string;
  data: PingData;
};

export type Priority = "low" | "normal" | "high";

export type Problem = {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  request_id: string;
  errors?: FieldError[];
  required_scope?: string;
  transfer_id?: string;
  transfer_ids?: string[];
  endpoint_error?: EndpointError;
  current_status?: string;
};

export type ProblemCode = "validation_failed" | "invalid_json" | "invalid_parameter" | "unknown_field" | "endpoint_not_configured" | "credentials_in_uri" | "malformed_request" | "api_key_missing" | "api_key_malformed" | "api_key_invalid" | "api_key_expired" | "api_key_revoked" | "api_key_id_used" | "session_ended" | "insufficient_scope" | "cross_site_request" | "not_found" | "method_not_allowed" | "request_timeout" | "batch_not_cancellable" | "batch_not_retryable" | "transfer_not_cancellable" | "transfer_not_retryable" | "priority_not_changeable" | "receipt_not_ready" | "idempotency_in_progress" | "limit_reached" | "endpoint_in_use" | "webhook_disabled" | "precondition_failed" | "payload_too_large" | "unsupported_media_type" | "idempotency_key_reused" | "rate_limited" | "headers_too_large" | "internal_error" | "endpoint_failed" | "unavailable";

export type Projection = {
  name: string;
  state: ProjectionState;
  detail: string | null;
  version: number;
  position: string;
  log_position: string;
  lag_events: number;
  lag_seconds: number;
  moved_at: string;
  tasks: ProjectionTaskKind[];
  rebuild: ProjectionTask | null;
  verify: ProjectionTask | null;
};

export type ProjectionList = {
  data: Projection[];
};

export type ProjectionState = "running" | "stopped" | "failed";

export type ProjectionTask = {
  state: ProjectionTaskState;
  requested_by: string;
  requested_at: string;
  started_at: string | null;
  finished_at: string | null;
  events: number;
  share: number;
  events_per_second: number | null;
  seconds_left: number | null;
  differences: string[] | null;
  error: string | null;
};

export type ProjectionTaskKind = "rebuild" | "verify";

export type ProjectionTaskState = "waiting" | "running" | "done" | "failed";

export type Protocol = "sftp" | "ftps" | "s3" | "azure";

export type ProvenEvent = {
  index: number;
  leaf: string;
  proof: string[];
};

export type ProxyType = "http" | "socks5";

export type QueueLength = {
  priority: Priority;
  due: number;
  later: number;
  moving: number;
  speed_bps: number;
};

export type Readiness = {
  status: ReadinessStatus;
  checks: Record<string, ReadinessCheck>;
};

export type ReadinessCheck = {
  ok: boolean;
  detail: string;
};

export type ReadinessStatus = "ready" | "not_ready";

export type Receipt = {
  version: 1;
  transfer_id: string;
  events: ProvenEvent[];
  checkpoint: string;
  public_key: string;
};

export type RejectedItem = {
  item: number;
  source_uri: string;
  error: RejectionReason;
};

export type RejectedItems = {
  data: RejectedItem[];
  pagination: Pagination;
};

export type RejectionReason = {
  code: string;
  message: string;
};

export type RemovedFlow = {
  id: string;
  status: "removed";
  removed_at: string;
};

export type ReplayRequest = {
  from: string;
};

export type RetriedDeliveries = {
  retried: number;
};

export type RetriedTransfer = {
  id: string;
  status: "pending";
  source_uri: string;
  destination_uri: string;
  priority: Priority;
  created_at: string;
  estimated_start: string;
  retry_of: string;
};

export type RetryFailedRequest = {
  account?: string;
};

export type Role = "viewer" | "operator" | "auditor" | "admin";

export type RunAnswer = {
  id?: string;
  status?: "requested";
  counts?: DryRunCounts;
  data?: DryRunFile[];
  error?: ListingError | null;
  truncated?: boolean;
};

export type RunRequest = {
  dry_run?: boolean;
};

export type S3Encryption = "AES256" | "aws:kms";

export type S3Endpoint = {
  name: string;
  max_connections: number;
  accounts: string[] | null;
  overwrite: boolean;
  bandwidth: Bandwidth | null;
  protocol: "s3";
  bucket: string;
  prefix: string;
  region: string;
  endpoint_url: string | null;
  force_path_style: boolean;
  ca_pem: string | null;
  storage_class: string | null;
  sse: S3Encryption | null;
  sse_kms_key_id: string | null;
  via: EndpointVia | null;
  id: string;
  has_credentials: SignInKind;
  bandwidth_now: number | null;
  paused: boolean;
  unreachable_since: string | null;
  health: EndpointHealth | null;
  revision: number;
  configured_at: string;
};

export type S3EndpointRequest = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "s3";
  bucket: string;
  prefix?: string;
  region?: string;
  endpoint_url?: string | null;
  force_path_style?: boolean;
  access_key_id: string;
  secret_access_key: string;
  ca_pem?: string | null;
  storage_class?: string | null;
  sse?: S3Encryption | null;
  sse_kms_key_id?: string | null;
  via?: ViaProxy | null;
};

export type S3EndpointUpdate = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "s3";
  bucket: string;
  prefix?: string;
  region?: string;
  endpoint_url?: string | null;
  force_path_style?: boolean;
  access_key_id?: string;
  secret_access_key?: string;
  ca_pem?: string | null;
  storage_class?: string | null;
  sse?: S3Encryption | null;
  sse_kms_key_id?: string | null;
  via?: ViaProxy | null;
};

export type Scope = "transfers:read" | "transfers:write" | "flows:read" | "flows:write" | "webhooks:read" | "webhooks:write" | "audit:read" | "metrics:read" | "observe" | "operate" | "audit:all" | "admin";

export type SearchPagination = {
  total: number;
  limit: number;
  offset: number;
  has_more: boolean;
  total_is_exact?: boolean;
};

export type SecretRotation = {
  secret?: string;
  grace?: string;
};

export type Session = {
  key_id: string | null;
  key_name: string | null;
  person: Person | null;
  account: string;
  accounts: string[];
  roles: Role[];
  scopes: AnyScope[];
  sign_out_url: string | null;
  expires_at: string;
};

export type SftpEndpoint = {
  name: string;
  max_connections: number;
  accounts: string[] | null;
  overwrite: boolean;
  bandwidth: Bandwidth | null;
  protocol: "sftp";
  host: string;
  port: number;
  base_path: string;
  username: string;
  host_key_sha256: string | null;
  host_keys: AcceptedHostKey[];
  via: EndpointVia | null;
  announced_host_keys: AnnouncedHostKey[];
  id: string;
  has_credentials: SignInKind;
  bandwidth_now: number | null;
  paused: boolean;
  unreachable_since: string | null;
  health: EndpointHealth | null;
  revision: number;
  configured_at: string;
};

export type SftpEndpointRequest = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "sftp";
  host: string;
  port?: number;
  base_path?: string;
  username: string;
  password?: string;
  private_key?: string;
  passphrase?: string;
  host_key_sha256?: string | null;
  host_keys?: HostKey[] | null;
  via?: ViaHop | null;
};

export type SftpEndpointUpdate = {
  name: string;
  max_connections?: number;
  accounts?: string[] | null;
  overwrite?: boolean;
  bandwidth?: BandwidthRequest | null;
  protocol: "sftp";
  host: string;
  port?: number;
  base_path?: string;
  username: string;
  password?: string;
  private_key?: string;
  passphrase?: string;
  host_key_sha256?: string | null;
  host_keys?: HostKey[] | null;
  via?: ViaHop | null;
};

export type SignIn = {
  api_key: string;
};

export type SignInKind = "password" | "private_key" | "private_key_and_password" | "access_key" | "account_key" | "sas_token";

export type SignInOptions = {
  identity_provider: string | null;
};

export type TransferCancelledData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "cancelled";
  source: string;
  destination: string;
  cancelled_at: string;
};

export type TransferCancelledPayload = {
  id: string;
  type: "transfer.cancelled";
  created_at: string;
  data: TransferCancelledData;
};

export type TransferChange = {
  priority: Priority;
};

export type TransferCompletedData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number;
  status: "completed";
  source: string;
  destination: string;
  duration_ms: number;
  checksum_sha256: string;
};

export type TransferCompletedPayload = {
  id: string;
  type: "transfer.completed";
  created_at: string;
  data: TransferCompletedData;
};

export type TransferCounts = {
  pending: number;
  queued: number;
  in_progress: number;
  completed: number;
  failed: number;
  cancelled: number;
};

export type TransferCreatedData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "pending";
  source: string;
  destination: string;
  priority: Priority;
  created_at: string;
};

export type TransferCreatedPayload = {
  id: string;
  type: "transfer.created";
  created_at: string;
  data: TransferCreatedData;
};

export type TransferDetail = {
  id: string;
  file_name: string;
  size_bytes: number | null;
  transferred_bytes: number;
  progress_pct: number;
  status: TransferStatus;
  speed_bps: number | null;
  source: string;
  destination: string;
  checksum_sha256: string | null;
  created_at: string;
  completed_at: string | null;
  ended_at: string | null;
  retry_count: number;
  error: TransferError | null;
  priority: Priority;
  metadata: Record<string, string>;
  retry_of: string | null;
  batch_id: string | null;
  expected_sha256?: string;
  verify?: VerifyMethod;
  preserve_mtime?: boolean;
  waiting_for: WaitingFor | null;
  after?: AfterTransfer;
};

export type TransferError = {
  code: TransferErrorCode;
  message: string;
  retryable: boolean;
  phase: string;
  attempts: number;
  occurred_at: string;
  advice: string;
};

export type TransferErrorCode = "auth_failed" | "host_key_mismatch" | "tls_error" | "connection_failed" | "timeout" | "stalled" | "source_not_found" | "source_changed" | "source_replaced" | "size_unknown" | "destination_not_found" | "permission_denied" | "disk_full" | "file_too_large" | "destination_exists" | "destination_changed" | "destination_is_source" | "checksum_mismatch" | "size_mismatch" | "source_endpoint_not_configured" | "endpoint_removed" | "aborted_by_operator" | "internal_error";

export type TransferFailedData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "failed";
  source: string;
  destination: string;
  error: TransferError;
  retry_count: number;
  failed_at: string;
};

export type TransferFailedPayload = {
  id: string;
  type: "transfer.failed";
  created_at: string;
  data: TransferFailedData;
};

export type TransferFailures = {
  code: TransferErrorCode;
  transfers: number;
  first_failed_at: string;
  last_failed_at: string;
};

export type TransferFilters = {
  q?: string;
  status?: TransferStatus;
  error_code?: TransferErrorCode;
  error_endpoint_id?: string;
  from_date?: string;
  to_date?: string;
  destination?: string;
  retry_of?: string;
  batch_id?: string;
  retried?: boolean;
};

export type TransferHistory = {
  data: HistoryItem[];
};

export type TransferHour = {
  at: string;
  by_status: TransferCounts;
};

export type TransferInProgressData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "in_progress";
  source: string;
  destination: string;
  started_at: string;
  retry_count: number;
};

export type TransferInProgressPayload = {
  id: string;
  type: "transfer.in_progress";
  created_at: string;
  data: TransferInProgressData;
};

export type TransferList = {
  data: TransferListItem[];
  pagination: SearchPagination;
};

export type TransferListItem = {
  id: string;
  file_name: string;
  size_bytes: number | null;
  status: TransferStatus;
  source: string;
  destination: string;
  created_at: string;
  completed_at: string | null;
  ended_at: string | null;
  error: TransferError | null;
  retry_of: string | null;
  waiting_for: WaitingFor | null;
};

export type TransferMarkerFailedData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "completed";
  source: string;
  destination: string;
  marker: string;
  reason: AfterReason;
  failed_at: string;
};

export type TransferMarkerFailedPayload = {
  id: string;
  type: "transfer.marker_failed";
  created_at: string;
  data: TransferMarkerFailedData;
};

export type TransferMarkerWrittenData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "completed";
  source: string;
  destination: string;
  marker: string;
  written_at: string;
};

export type TransferMarkerWrittenPayload = {
  id: string;
  type: "transfer.marker_written";
  created_at: string;
  data: TransferMarkerWrittenData;
};

export type TransferRequest = {
  source_uri: string;
  destination_uri: string;
  priority?: Priority;
  notify_on_complete?: boolean;
  metadata?: Record<string, string> | null;
  after?: AfterRequest | null;
  expected_sha256?: string;
  verify?: VerifyMethod;
  preserve_mtime?: boolean;
};

export type TransferSeries = {
  data: TransferHour[];
};

export type TransferSort = "-created_at" | "created_at";

export type TransferSourceDeletedData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "completed";
  source: string;
  destination: string;
  source_file: DescribedFile;
  confirmed: boolean;
  deleted_at: string;
};

export type TransferSourceDeletedPayload = {
  id: string;
  type: "transfer.source_deleted";
  created_at: string;
  data: TransferSourceDeletedData;
};

export type TransferSourceKeptData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "completed";
  source: string;
  destination: string;
  reason: AfterReason;
  found: DescribedFile | null;
  kept_at: string;
};

export type TransferSourceKeptPayload = {
  id: string;
  type: "transfer.source_kept";
  created_at: string;
  data: TransferSourceKeptData;
};

export type TransferSourceMovedData = {
  transfer_id: string;
  file_name: string;
  size_bytes: number | null;
  status: "completed";
  source: string;
  destination: string;
  source_file: DescribedFile;
  confirmed: boolean;
  moved_to: string;
  moved_at: string;
};

export type TransferSourceMovedPayload = {
  id: string;
  type: "transfer.source_moved";
  created_at: string;
  data: TransferSourceMovedData;
};

export type TransferStatus = "pending" | "queued" | "in_progress" | "completed" | "failed" | "cancelled";

export type TransferSummary = {
  total: number;
  by_status: TransferCounts;
  failures: TransferFailures[];
  failures_by_endpoint: EndpointFailures[];
  retried: number;
};

export type VerifyMethod = "read_back";

export type ViaHop = {
  type: ViaType;
  host: string;
  port?: number;
  username?: string | null;
  password?: string;
  private_key?: string;
  passphrase?: string;
  host_keys?: HostKey[] | null;
};

export type ViaProxy = {
  type: ProxyType;
  host: string;
  port?: number;
  username?: string | null;
  password?: string;
  private_key?: string;
  passphrase?: string;
  host_keys?: HostKey[] | null;
};

export type ViaType = "ssh" | "http" | "socks5";

export type WaitingFor = {
  reason: WaitingReason;
  message: string;
  until: string | null;
  endpoint_id: string | null;
  in_use: number | null;
  limit: number | null;
};

export type WaitingReason = "read_model_behind" | "no_mover" | "dispatch_behind" | "previous_lease" | "catalog_behind" | "endpoint_paused" | "retry_at" | "sign_ins_on_hold" | "endpoint_full" | "fair_share" | "movers_busy" | "starting";

export type Webhook = {
  id: string;
  url: string;
  events: AnyWebhookEventType[];
  enabled: boolean;
  created_at: string;
  updated_at: string;
  previous_secret_valid_until: string | null;
};

export type WebhookChanges = {
  url?: string;
  events?: WebhookEventType[];
  enabled?: boolean;
};

export type WebhookEventType = "transfer.created" | "transfer.in_progress" | "transfer.completed" | "transfer.failed" | "transfer.cancelled" | "transfer.marker_written" | "transfer.marker_failed" | "transfer.source_deleted" | "transfer.source_moved" | "transfer.source_kept" | "batch.completed" | "flow.run_completed" | "flow.run_failed" | "flow.recovered" | "endpoint.connectivity_lost" | "key.expiring_soon" | "log.checkpoint";

export type WebhookList = {
  data: Webhook[];
};

export type WebhookRequest = {
  url: string;
  events: WebhookEventType[];
  secret?: string;
};

export type WebhookWithSecret = {
  id: string;
  url: string;
  events: AnyWebhookEventType[];
  enabled: boolean;
  created_at: string;
  updated_at: string;
  previous_secret_valid_until: string | null;
  secret?: string;
};
