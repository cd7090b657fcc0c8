import { FileError } from '../../adapters/files/port.ts';
import { ENDPOINT_CREDENTIALS, type Vault, VaultRecordMissing } from '../../adapters/vault.ts';
import type { EndpointCredentials } from '../../domain/protocols/index.ts';

/**
 * Opens the credentials of a saved endpoint. Throws FileError `auth_failed` if the vault no longer
 * has them, as after a lost master key.
 */
export async function openCredentials(
  vault: Pick<Vault, 'open'>,
  { credentials_record }: { credentials_record: string },
): Promise<EndpointCredentials> {
  try {
    return await vault.open<EndpointCredentials>(credentials_record, ENDPOINT_CREDENTIALS);
  } catch (error) {
    if (!(error instanceof VaultRecordMissing)) throw error;
    throw new FileError(
      'auth_failed',
      'sign_in',
      'Waybill no longer has the credentials of this endpoint: replace them',
      { cause: error },
    );
  }
}
