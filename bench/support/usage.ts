import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { descendants } from '../../test/support/programs/process-tree.ts';

/** The usage of a process and its descendants; null if the system has no figure. */
export interface Usage {
  seconds: number;
  cpuSeconds: number | null;
  /** Peak memory of the process alone. */
  peakBytes: number | null;
}

/** The unit of /proc/PID/stat: the same on every Linux on which Node runs. */
const TICKS_PER_SECOND = 100;
const PEAK_EVERY_MS = 20;

/** Returns the CPU seconds of a process and its descendants, ended children included. */
export function cpuSeconds(pid: number): number | null {
  const all = [pid, ...descendants(pid)].map(ticks);
  if (all[0] === null) return null;
  return all.reduce<number>((sum, own) => sum + (own ?? 0), 0) / TICKS_PER_SECOND;
}

function ticks(pid: number): number | null {
  const stat = readProc(`${pid}/stat`);
  if (stat === null) return null;
  // The name may hold anything. After it: utime, stime, and those of children that were waited for.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
}

export function peakBytes(pid: number): number | null {
  const kilobytes = /^VmHWM:\s+(\d+) kB/m.exec(readProc(`${pid}/status`) ?? '')?.[1];
  return kilobytes === undefined ? null : Number(kilobytes) * 1024;
}

/** Resets the peak to what the process holds now. */
export function resetPeak(pid: number): void {
  if (process.platform === 'linux') writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

function readProc(file: string): string | null {
  try {
    return readFileSync(`/proc/${file}`, 'utf8');
  } catch {
    return null;
  }
}

/** Measures a running process during `work`, which returns its own seconds. */
export async function measureProcess(pid: number, work: () => Promise<number>): Promise<Usage> {
  resetPeak(pid);
  const before = cpuSeconds(pid);
  const seconds = await work();
  const after = cpuSeconds(pid);
  return {
    seconds,
    cpuSeconds: before === null || after === null ? null : after - before,
    peakBytes: peakBytes(pid),
  };
}

/** Runs a command and measures it. Throws its stderr if it fails. */
export async function measureCommand(command: string[], env: NodeJS.ProcessEnv): Promise<Usage> {
  const started = performance.now();
  // The shell waits for the command, so `times` has its CPU time to the last tick.
  const shell = ['-c', '"$@"; code=$?; times >&3; exit $code', 'sh', ...command];
  const child = spawn('sh', shell, { env, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] });
  let peak: number | null = null;
  const watching = setInterval(() => {
    for (const pid of descendants(child.pid as number))
      peak = Math.max(peak ?? 0, peakBytes(pid) ?? 0);
  }, PEAK_EVERY_MS);
  const stderr = text(child.stderr as NodeJS.ReadableStream);
  const times = text(child.stdio[3] as NodeJS.ReadableStream);
  const [code] = await once(child, 'exit');
  const seconds = (performance.now() - started) / 1_000;
  clearInterval(watching);
  if (code !== 0) throw new Error(`${command.join(' ')} ends with ${code}:\n${await stderr}`);
  const ofChildren = [...(await times).matchAll(/(\d+)m([\d.]+)s/g)].slice(2);
  const cpu = ofChildren.reduce(
    (sum, [, minutes, rest]) => sum + Number(minutes) * 60 + Number(rest),
    0,
  );
  return { seconds, cpuSeconds: cpu, peakBytes: peak };
}

/** Returns the usage of two runs, one after the other. */
export function plus(a: Usage, b: Usage): Usage {
  const peak = Math.max(a.peakBytes ?? 0, b.peakBytes ?? 0);
  const cpu = a.cpuSeconds === null || b.cpuSeconds === null ? null : a.cpuSeconds + b.cpuSeconds;
  return { seconds: a.seconds + b.seconds, cpuSeconds: cpu, peakBytes: peak || null };
}
