import { createWriteStream, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import type {
  DeliveryRecord,
  ExitRecord,
  FaultRecord,
  RequestRecord,
  RunRecord,
  VersionRecord,
  WebhookRecord,
} from './evidence.ts';

export interface EvidenceWriter {
  folder: string;
  request(record: RequestRecord): void;
  delivery(record: DeliveryRecord): void;
  webhook(record: WebhookRecord): void;
  exit(record: ExitRecord): void;
  version(record: VersionRecord): void;
  fault(record: FaultRecord): void;
  /** Requests so far, by kind and status. */
  requests: Map<string, number>;
  faults: Map<string, number>;
  deliveries: Map<string, number>;
  exits: ExitRecord[];
  /** Ends the line files and writes `run.json`. */
  finish(run: RunRecord): Promise<void>;
}

/** Creates the evidence folder with its files. */
export function openEvidence(folder: string): EvidenceWriter {
  mkdirSync(folder, { recursive: true });
  const open = (name: string) => createWriteStream(join(folder, `${name}.ndjson`));
  const files = {
    requests: open('requests'),
    deliveries: open('deliveries'),
    webhooks: open('webhooks'),
    processes: open('processes'),
    faults: open('faults'),
    versions: open('versions'),
  };
  const requests = new Map<string, number>();
  const faults = new Map<string, number>();
  const deliveries = new Map<string, number>();
  const exits: ExitRecord[] = [];
  const write = (file: keyof typeof files, record: object) => {
    if (!files[file].writableEnded) files[file].write(`${JSON.stringify(record)}\n`);
  };

  return {
    folder,
    requests,
    faults,
    deliveries,
    exits,
    request(record) {
      count(
        requests,
        `${record.kind === 'other' ? record.what : record.kind} ${record.status ?? 'no answer'}`,
      );
      write('requests', record);
    },
    delivery(record) {
      count(deliveries, String(record.status ?? 'no answer'));
      write('deliveries', record);
    },
    webhook: (record) => write('webhooks', record),
    version: (record) => write('versions', record),
    exit(record) {
      exits.push(record);
      write('processes', record);
    },
    fault(record) {
      count(faults, record.fault);
      write('faults', record);
    },
    async finish(run) {
      const streams = Object.values(files);
      for (const stream of streams) stream.end();
      await Promise.all(streams.map((stream) => finished(stream)));
      writeFileSync(join(folder, 'run.json'), `${JSON.stringify(run, null, 2)}\n`);
    },
  };
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
