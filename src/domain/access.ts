import type { Fold } from './events/decider.ts';
import { type Event, eventGuard } from './events/event.ts';

/** What can be exported: the log, the audit log or the transfers of an account. */
const EXPORTS = ['log', 'audit_log', 'transfers'] as const;
export type ExportName = (typeof EXPORTS)[number];

export interface AccessExported {
  export: ExportName;
  /** The parameters of the request. */
  parameters: Record<string, string>;
}

/** Failed sign-ins from one address. */
export interface SignInFailed {
  /** An IPv4 address or an IPv6 network of 64 bits. Null for addresses beyond those counted. */
  address: string | null;
  failures: number;
  /** How often each reason occurred: the codes of the problems. */
  reasons: Record<string, number>;
  /** Known keys that were tried after their expiry or revocation, at most ten. */
  key_ids: string[];
  first_at: string;
  last_at: string;
}

/**
 * Who read what, in streams of their own. They change nothing. Changes are the events of what was
 * changed.
 */
export type AccessEvent =
  | Event<'access.exported', AccessExported>
  | Event<'access.history_read', { transfer_id: string }>
  | Event<'access.receipt_read', { transfer_id: string }>
  | Event<'access.sign_in_failed', SignInFailed>;

const isAccessEvent = eventGuard<AccessEvent>({
  'access.exported': true,
  'access.history_read': true,
  'access.receipt_read': true,
  'access.sign_in_failed': true,
});

/** A stream of accesses: any access follows any other. */
export const accessFold: Fold<{ status: 'none' | 'recorded' }> = {
  initialState: () => ({ status: 'none' }),
  evolve: (state, event) => (isAccessEvent(event) ? { status: 'recorded' } : state),
};

/** Returns what was read: an export, the id of a transfer, or the address of failed sign-ins. */
export function accessed({ type, data }: AccessEvent): string {
  switch (type) {
    case 'access.exported':
      return data.export;
    case 'access.history_read':
    case 'access.receipt_read':
      return data.transfer_id;
    case 'access.sign_in_failed':
      return data.address ?? 'others';
  }
}
