import { userInfo } from 'node:os';

/** null where the user of this process has an account here, else why a server that signs its users in can't run as him. */
export function whyNoOwnAccount(): string | null {
  try {
    userInfo();
    return null;
  } catch {
    return `the user ${process.getuid?.()} has no account on this machine, and the server signs in accounts only`;
  }
}
