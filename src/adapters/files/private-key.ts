import ssh2 from 'ssh2';
import { fieldError } from '../../domain/errors.ts';
import type { EndpointCredentials } from '../../domain/protocols/index.ts';
import type { ViaCredentials } from '../../domain/protocols/via.ts';
import type { SshCredentials } from './sftp/sign-in.ts';

/**
 * Throws `validation_failed` for a private key that the SSH library cannot read: each sign-in would
 * fail as if the server had rejected the key. A passphrase is not tried, because a key can say that
 * this takes minutes.
 */
export function refuseUnreadableKeys(
  credentials: EndpointCredentials & { via?: ViaCredentials },
): void {
  const { private_key, passphrase } = credentials as SshCredentials;
  refuseUnreadable({ private_key, passphrase }, '');
  if (credentials.via) refuseUnreadable(credentials.via, 'via.');
}

function refuseUnreadable({ private_key, passphrase }: SshCredentials, prefix: string): void {
  if (private_key === undefined) return;
  const key = ssh2.utils.parseKey(private_key);
  if (!(key instanceof Error)) {
    if (key.isPrivateKey()) return;
    throw fieldError(`${prefix}private_key`, 'must be the private key: this is the public one');
  }
  if (!/no passphrase given/.test(key.message))
    throw fieldError(
      `${prefix}private_key`,
      'must be a private key in the format of OpenSSH, PEM (PKCS #1, SEC 1) or PuTTY: this one ' +
        'cannot be read',
    );
  if (passphrase === undefined)
    throw fieldError(`${prefix}passphrase`, 'is required: the private key is encrypted');
}
