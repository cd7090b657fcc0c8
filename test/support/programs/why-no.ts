import { execFileSync } from 'node:child_process';

/** Returns null if the program runs here, else the reason why tests that need it are skipped. */
export function whyNo(program: string, version = '--version'): string | null {
  try {
    execFileSync(program, [version], { stdio: 'ignore' });
    return null;
  } catch {
    return `${program} does not run here`;
  }
}
