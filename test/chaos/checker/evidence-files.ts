import { createReadStream, existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type {
  DeliveryRecord,
  ExitRecord,
  FaultRecord,
  PlacedFileRecord,
  RequestRecord,
  RunRecord,
  VersionRecord,
  WebhookRecord,
} from '../evidence.ts';
import type { Report } from './report.ts';

/** Everything in the evidence folder. */
export interface Evidence {
  run: RunRecord;
  requests: RequestRecord[];
  deliveries: DeliveryRecord[];
  webhooks: WebhookRecord[];
  exits: ExitRecord[];
  faults: FaultRecord[];
  placed: PlacedFileRecord[];
  versions: VersionRecord[];
}

/** Reads the evidence folder. A missing file of lines counts as empty. */
export async function readEvidence(folder: string, report: Report): Promise<Evidence> {
  const lines = <T>(name: string) => readLines<T>(join(folder, name), name, report);
  return {
    run: JSON.parse(await readFile(join(folder, 'run.json'), 'utf8')) as RunRecord,
    requests: await lines<RequestRecord>('requests.ndjson'),
    deliveries: await lines<DeliveryRecord>('deliveries.ndjson'),
    webhooks: await lines<WebhookRecord>('webhooks.ndjson'),
    exits: await lines<ExitRecord>('processes.ndjson'),
    faults: await lines<FaultRecord>('faults.ndjson'),
    placed: await lines<PlacedFileRecord>('files.ndjson'),
    versions: await lines<VersionRecord>('versions.ndjson'),
  };
}

async function readLines<T>(path: string, name: string, report: Report): Promise<T[]> {
  const records: T[] = [];
  if (!existsSync(path)) return records;
  let number = 0;
  for await (const line of createInterface({
    input: createReadStream(path),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    number += 1;
    if (line === '') continue;
    try {
      records.push(JSON.parse(line) as T);
    } catch {
      report.finding('evidence', `${name} line ${number}`, 'it is not JSON');
    }
  }
  return records;
}

export type CreateRecord = Extract<RequestRecord, { kind: 'create' }>;
export type CreateBatchRecord = Extract<RequestRecord, { kind: 'create_batch' }>;
export type CancelRecord = Extract<RequestRecord, { kind: 'cancel' }>;

/** True if no answer says whether the request was carried out. */
export function isUnanswered({ status }: { status: number | null }): boolean {
  return status === null || status >= 500;
}

/** How many seconds after a fault without an end its effects are expected. */
const MOMENTARY_FAULT_MS = 120_000;

/** Returns the faults that were active at some time between two instants. */
export function faultsBetween(faults: FaultRecord[], from: string, to: string): FaultRecord[] {
  const [start, end] = [Date.parse(from), Date.parse(to)];
  return faults.filter(({ at, until }) => {
    const lifted = until === null ? Date.parse(at) + MOMENTARY_FAULT_MS : Date.parse(until);
    return Date.parse(at) <= end && lifted >= start;
  });
}
