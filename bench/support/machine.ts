import { readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';

/** Prints the machine and its load: figures of a busy machine say less. */
export function printMachine(): void {
  const all = cpus();
  const sha = hashesInHardware() ? 'with' : 'without';
  console.log(
    `${all.length} x ${all[0]?.model.trim()}, ${sha} SHA instructions, Node ` +
      `${process.version}, ${loadAverage()}`,
  );
}

export function loadAverage(): string {
  return `load average ${loadavg()[0]?.toFixed(1)}`;
}

/**
 * True if the CPU has SHA instructions. Without them, SHA-256, which rclone skips, is most of the
 * work.
 */
export function hashesInHardware(): boolean {
  try {
    return /\b(sha_ni|sha2)\b/.test(readFileSync('/proc/cpuinfo', 'utf8'));
  } catch {
    return true;
  }
}
