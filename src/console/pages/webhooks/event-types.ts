import type { WebhookRequest } from '../../api/operations.ts';

export type EventType = WebhookRequest['events'][number];

/** Event types that a webhook can subscribe to. */
export const EVENT_TYPES: Record<EventType, string> = {
  'transfer.created': 'Transfer created',
  'transfer.in_progress': 'Attempt started',
  'transfer.completed': 'File delivered and verified',
  'transfer.failed': 'Transfer failed, no retry left',
  'transfer.cancelled': 'Transfer cancelled',
  'batch.completed': 'Batch ended',
  'endpoint.connectivity_lost': 'Endpoint became unreachable',
  'key.expiring_soon': 'API key expires within 7 days',
  'log.checkpoint': 'Checkpoint of the log signed (scope audit:read)',
};
