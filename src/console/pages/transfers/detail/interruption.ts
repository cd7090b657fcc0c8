import type { GivenBack, TransferQueued } from '../../../../domain/transfers/transfer.ts';

type MoverLost = Extract<TransferQueued, { reason: 'mover_lost' }>;

const WORDS: Record<GivenBack, string> = {
  shutdown: 'The mover was stopped',
  lease_lost: 'The mover could not renew its lease in time',
  endpoint_changed: 'An endpoint or its credentials had changed',
  no_connection: 'The server accepted no further connection',
  out_of_resources: 'The machine of the mover lacked memory or open files',
};

/** Says why an attempt was interrupted, without a full stop. */
export function interruption({ given_back }: MoverLost): string {
  return given_back ? WORDS[given_back] : 'The mover stopped or was lost';
}
