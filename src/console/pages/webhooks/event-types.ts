import type { WebhookRequestInput } from '../../api/operations.ts';

export type EventType = WebhookRequestInput['events'][number];

/** What a webhook can be told of. */
export const EVENT_TYPES: Record<EventType, string> = {
  'transfer.created': 'A transfer was asked for',
  'transfer.in_progress': 'An attempt begins',
  'transfer.completed': 'The file has arrived and was verified',
  'transfer.failed': 'It failed, after all retries',
  'transfer.cancelled': 'Somebody cancelled it',
  'endpoint.connectivity_lost': 'A server cannot be reached any more',
  'key.expiring_soon': 'An API key expires within 7 days',
};
