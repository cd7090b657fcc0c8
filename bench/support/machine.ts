import { readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';

/** What ran, and what else ran beside it: figures of a busy machine tell less. */
export function printMachine(): void {
  const all = cpus();
  const sha = hashesInHardware() ? 'with' : 'without';
  console.log(`${all.length} x ${all[0]?.model.trim()}, ${sha} SHA instructions, Node ${process.version}, ${loadAverage()}`);
}

export function loadAverage(): string {
  return `load average ${loadavg()[0]?.toFixed(1)}`;
}

/** Without such instructions SHA-256, which rclone does not compute, is most of the work. */
export function hashesInHardware(): boolean {
  try {
    return /\b(sha_ni|sha2)\b/.test(readFileSync('/proc/cpuinfo', 'utf8'));
  } catch {
    return true;
  }
}
