/**
 * What a chaos run leaves behind for the checker. The runner writes it. The checker reads it, the
 * log, the destinations and the API, and nothing else. Neither this file nor the checker imports
 * code of `src`.
 */

/** Where the checker finds everything: one JSON document, `run.json`, in the evidence folder. */
export interface RunRecord {
  seed: number;
  startedAt: string;
  /** Set when the load has stopped, every fault is lifted and the service has settled. */
  settledAt: string;
  log: { engine: 'postgres' } | { engine: 'eventstoredb'; url: string };
  /**
   * `WAYBILL_STREAM_PREFIX`, which every stream of either engine starts with; `waybill_` by
   * default.
   */
  streamPrefix: string;
  databaseUrl: string;
  /** Base URL of an API process, `http://127.0.0.1:PORT`. */
  apiUrl: string;
  /** A key with the scope `admin`, of the account whose transfers the run created. */
  adminKey: string;
  /** A key of another account that loads the service too; absent if none does. */
  neighbourKey?: string;
  endpoints: EndpointRecord[];
}

/** How the checker reads the files of one endpoint without the service. */
export type EndpointRecord = {
  /** The name of the configured endpoint, or another name for a place without an endpoint. */
  name: string;
} & (
  | { kind: 'folder'; protocol: 'sftp' | 'ftps'; path: string }
  | {
      kind: 's3';
      url: string;
      region: string;
      bucket: string;
      accessKeyId: string;
      secretAccessKey: string;
    }
  | { kind: 'azure'; url: string; container: string; account: string; accountKey: string }
);

/** What every record of a request has. */
export interface Asked {
  sentAt: string;
  answeredAt: string | null;
  /** Null without an answer: the request may have been carried out or not. */
  status: number | null;
  /** The account of its API key; null for a key that sees all accounts. */
  account: string | null;
  /** Ids of transfers, batches, flows and webhooks in an answer below 400. */
  names: string[];
}

/** One line of `requests.ndjson`: a request of the load and its result. */
export type RequestRecord = Asked &
  (
    | {
        kind: 'create';
        /** Identical requests share it; null if none was sent. */
        idempotencyKey: string | null;
        /**
         * `path` is decoded. It is relative to the endpoint's folder, bucket and prefix, or container
         * and prefix.
         */
        source: { endpoint: string; path: string };
        destination: { endpoint: string; path: string };
        /** The file at the source; null if the load requested a missing one. */
        file: { size: number; sha256: string } | null;
        /**
         * Codes with which the transfer may fail even without a fault, such as `permission_denied`.
         */
        mayFailWith?: string[];
        /** From the 201. */
        transferId: string | null;
        replayed: boolean;
      }
    | {
        kind: 'create_batch';
        idempotencyKey: string;
        /** The files of `items`, in order, or those of a folder. */
        files: BatchFile[];
        ofFolder: boolean;
        /** From the 201. */
        batchId: string | null;
        replayed: boolean;
      }
    | {
        kind: 'retry_batch';
        idempotencyKey: string;
        /** The batch whose failed transfers it repeats. */
        of: string;
        /** From the 201. */
        batchId: string | null;
        replayed: boolean;
      }
    | { kind: 'cancel_batch'; batchId: string }
    | { kind: 'cancel'; transferId: string }
    | { kind: 'detail'; transferId: string }
    /** Asks for a transfer of another account. */
    | { kind: 'foreign'; transferId: string; what: string }
    | { kind: 'other'; what: string }
  );

/** A file of a batch, with the meaning that a `create` gives its fields. */
export interface BatchFile {
  source: { endpoint: string; path: string };
  destination: { endpoint: string; path: string };
  file: { size: number; sha256: string } | null;
}

/**
 * One line of `versions.ndjson`: a version of a file that a writer put into the folder of a flow,
 * in the order of the writes. Each version of a file has another size.
 */
export interface VersionRecord {
  at: string;
  endpoint: string;
  path: string;
  size: number;
  sha256: string;
}

/** One line of `deliveries.ndjson`: a webhook request as a receiver got it. */
export interface DeliveryRecord {
  receivedAt: string;
  webhookId: string;
  /** The `webhook-id` header. */
  eventId: string;
  /** The body's own `id`, `type` and `data.transfer_id` (null for other resources). */
  bodyId: string;
  type: string;
  transferId: string | null;
  /** The receiver's answer; null if it cut the connection or never answered. */
  status: number | null;
  signatureValid: boolean;
  /** Lowercase hex SHA-256 of the raw body. */
  bodySha256?: string;
}

/** One line of `webhooks.ndjson`: a webhook that the load registered. */
export interface WebhookRecord {
  webhookId: string;
  url: string;
  events: string[];
  registeredAt: string;
  removedAt: string | null;
}

/** One line of `processes.ndjson`: the end of a process of the installation. */
export interface ExitRecord {
  at: string;
  process: string;
  code: number | null;
  signal: string | null;
  /** True if the runner caused it. A process that ends by itself is a finding. */
  expected: boolean;
  /** False if it ended before its roles ran. */
  ready?: boolean;
  /** The last lines that it wrote. */
  output: string;
}

/**
 * One line of `files.ndjson` (which may be absent): a file that the runner placed itself. It is not
 * the source of a transfer and not older than the run, such as a file that a destination must keep.
 */
export interface PlacedFileRecord {
  endpoint: string;
  path: string;
  size: number;
  sha256: string;
}

/** One line of `faults.ndjson`: a fault that the runner injected. */
export interface FaultRecord {
  at: string;
  until: string | null;
  fault: string;
  target: string;
}

/** The checker's result. An empty list of findings is a pass. */
export interface CheckResult {
  findings: { check: string; subject: string; detail: string }[];
  /**
   * Counts of compared events, transfers, files, deliveries and rows. They reveal a check that
   * compared nothing.
   */
  figures: Record<string, number>;
}
