import type { Chaos } from './faults.ts';
import type { TransferCounts } from './settle.ts';
import type { EvidenceWriter } from './writer.ts';

const FINDINGS_SHOWN = 60;
const EXITS_SHOWN = 12;
const EXIT_LINES_SHOWN = 6;

export interface Finding {
  check: string;
  subject: string;
  detail: string;
}

/** A line about the current state, for a person who watches the run. */
export function progressLine(
  secondsLeft: number,
  created: number,
  counts: TransferCounts | null,
  evidence: EvidenceWriter,
  chaos: Chaos,
) {
  const ended = counts
    ? `${counts.ended} ended, ${counts.open} open`
    : 'the service does not say how many ended';
  const exits = evidence.exits.filter((exit) => !exit.expected).length;
  const faults = chaos.current().join(', ') || 'none';
  const figures = `${created} created, ${ended}; unexpected exits ${exits}`;
  return `${secondsLeft} s left: ${figures}; faults: ${faults}`;
}

/** Returns the result of a run as text. */
export function summaryText(
  evidence: EvidenceWriter,
  skipped: Map<string, number>,
  counts: TransferCounts | null,
  figures: Record<string, number>,
  findings: Finding[],
): string {
  const unexpected = evidence.exits.filter((exit) => !exit.expected);
  return [
    table('Transfers by status', counts?.byStatus ?? {}),
    table('Requests', evidence.requests),
    table('Webhook requests by answer', evidence.deliveries),
    table('Faults injected', evidence.faults),
    table('Faults skipped', skipped),
    table('Compared', figures),
    `Ends of processes: ${evidence.exits.length}, of which unexpected: ${unexpected.length}`,
    ...unexpected.slice(0, EXITS_SHOWN).map(exitText),
    unexpected.length > EXITS_SHOWN
      ? `  ... and ${unexpected.length - EXITS_SHOWN} more in processes.ndjson`
      : '',
    `Findings: ${findings.length}`,
    ...findings
      .slice(0, FINDINGS_SHOWN)
      .map(({ check, subject, detail }) => `  ${check}: ${subject}: ${detail}`),
    findings.length > FINDINGS_SHOWN
      ? `  ... and ${findings.length - FINDINGS_SHOWN} more in findings.json`
      : '',
  ]
    .filter(Boolean)
    .join('\n');
}

function exitText({
  at,
  process,
  code,
  signal,
  ready,
  output,
}: EvidenceWriter['exits'][number]): string {
  const lines = output.split('\n').slice(-EXIT_LINES_SHOWN);
  return [
    `  ${at} ${process} ended with ${code ?? signal}${ready ? '' : ' as it started'}`,
    ...lines.map((line) => `    ${line.slice(0, 300)}`),
  ].join('\n');
}

function table(title: string, counts: Map<string, number> | Record<string, number>): string {
  const rows = [...(counts instanceof Map ? counts : Object.entries(counts))].toSorted(([a], [b]) =>
    a.localeCompare(b),
  );
  if (rows.length === 0) return '';
  return [
    `${title}:`,
    ...rows.map(([name, value]) => `  ${String(value).padStart(7)}  ${name}`),
  ].join('\n');
}
