import { userInfo } from 'node:os';

/**
 * Null if the user of this process has an account here, else why a server that signs in its users
 * cannot run as this user.
 */
export function whyNoOwnAccount(): string | null {
  try {
    userInfo();
    return null;
  } catch {
    return (
      `the user ${process.getuid?.()} has no account on this machine, and the server signs in ` +
      'accounts only'
    );
  }
}
