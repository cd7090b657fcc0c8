import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Evidence } from '../checker/evidence-files.ts';

/** Writes evidence as the runner does, and returns its folder. */
export function write(evidence: Evidence): string {
  const folder = mkdtempSync(join(tmpdir(), 'waybill-evidence-'));
  const lines = (name: string, records: unknown[]) =>
    writeFileSync(
      join(folder, name),
      records.map((record) => `${JSON.stringify(record)}\n`).join(''),
    );
  writeFileSync(join(folder, 'run.json'), JSON.stringify(evidence.run));
  lines('requests.ndjson', evidence.requests);
  lines('deliveries.ndjson', evidence.deliveries);
  lines('webhooks.ndjson', evidence.webhooks);
  lines('processes.ndjson', evidence.exits);
  lines('faults.ndjson', evidence.faults);
  lines('files.ndjson', evidence.placed);
  lines('versions.ndjson', evidence.versions);
  return folder;
}
