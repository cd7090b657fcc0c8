import { globSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BenchPostgres } from './postgres.ts';
import { printTable } from './table.ts';

const PROJECT = resolve(import.meta.dirname, '../..');
/** Folder of the profiles. The developer tools of a browser open them. */
export const PROFILES = join(PROJECT, '.cache/bench/profiles');

const SHOWN = 15;

interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  samples: number[];
  timeDeltas: number[];
}

/** Prints the functions in which an ended process spent the most time, callees excluded. */
export function printProfile(pid: number): void {
  for (const file of globSync(join(PROFILES, `CPU.*.${pid}.*.cpuprofile`))) {
    const profile = JSON.parse(readFileSync(file, 'utf8')) as CpuProfile;
    const names = new Map(profile.nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
    const spent = new Map<string, number>();
    profile.samples.forEach((node, i) => {
      const name = names.get(node) as string;
      if (name !== '(idle)')
        spent.set(name, (spent.get(name) ?? 0) + (profile.timeDeltas[i] as number));
    });
    const all = [...spent.values()].reduce((sum, micros) => sum + micros, 0);
    const top = [...spent].sort(([, a], [, b]) => b - a).slice(0, SHOWN);
    printTable(
      `CPU profile, ${(all / 1e6).toFixed(1)} s without idle time (${relative(PROJECT, file)})`,
      ['function', 'ms', 'share'],
      top.map(([name, micros]) => [name, micros / 1_000, `${((micros / all) * 100).toFixed(1)}%`]),
    );
  }
}

function nameOf({
  functionName,
  url,
  lineNumber,
}: CpuProfile['nodes'][number]['callFrame']): string {
  if (!url) return functionName || '(anonymous)';
  const file = url.startsWith('file:') ? relative(PROJECT, fileURLToPath(url)) : url;
  return `${functionName || '(anonymous)'} ${file}:${lineNumber + 1}`;
}

/**
 * Prints the statements that Postgres logged after `fromByte`, with the time of parse, bind and
 * execute together. `count` operations, each a `unit`, caused them.
 */
export function printStatements(
  { log }: BenchPostgres,
  fromByte: number,
  count: number,
  unit = 'transfer',
): void {
  if (log === null) return;
  const text = readFileSync(log).subarray(fromByte).toString();
  const statements = new Map<string, { calls: number; ms: number }>();
  const entry = /duration: ([\d.]+) ms +(parse|bind|execute|statement)(?: [^:]+)?: ((?:.|\n\t)*)/g;
  for (const [, ms, step, sql] of text.matchAll(entry)) {
    const statement = (sql as string).replace(/\s+/g, ' ').slice(0, 110);
    const seen = statements.get(statement) ?? { calls: 0, ms: 0 };
    const calls = step === 'execute' || step === 'statement' ? 1 : 0;
    statements.set(statement, { calls: seen.calls + calls, ms: seen.ms + Number(ms) });
  }
  const sum = (figure: 'calls' | 'ms') =>
    [...statements.values()].reduce((total, statement) => total + statement[figure], 0);
  printTable(
    `Statements in Postgres: ${sum('calls')}, ${(sum('calls') / count).toFixed(2)} a ` +
      `${unit}, ${sum('ms').toFixed(0)} ms`,
    ['statement', 'calls', 'ms'],
    [...statements]
      .sort(([, a], [, b]) => b.ms - a.ms)
      .slice(0, SHOWN)
      .map(([text, { calls, ms }]) => [text, String(calls), ms]),
  );
}
