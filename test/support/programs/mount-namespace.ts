import { execFileSync } from 'node:child_process';

let works: boolean | undefined;

/** Returns whether a server can run in a mount namespace of its own here. Asks the kernel once. */
export function canHaveMountNamespace(): boolean {
  works ??= unshares();
  return works;
}

function unshares(): boolean {
  try {
    execFileSync('unshare', ['-m', 'true'], { stdio: 'pipe' });
    return true;
  } catch {
    return false;
  }
}
