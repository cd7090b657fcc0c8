import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';

/** The password of the test account at every server that this process starts. */
export const TEST_PASSWORD = randomBytes(12).toString('hex');

const hashes = new Map<string, string>();

/** Returns the hash of a password for /etc/shadow. */
export function passwordHash(password: string): string {
  const known = hashes.get(password);
  if (known !== undefined) return known;
  const hash = execFileSync('openssl', ['passwd', '-6', '-stdin'], {
    input: password,
    encoding: 'utf8',
  }).trim();
  hashes.set(password, hash);
  return hash;
}
