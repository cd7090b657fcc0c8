import { EXPIRING_SOON_DAYS } from '../../../domain/attention.ts';
import type { WebhookRequest } from '../../api/api-types.ts';

export type EventType = WebhookRequest['events'][number];

/** Event types that a webhook can subscribe to. */
export const EVENT_TYPES: Record<EventType, string> = {
  'transfer.created': 'Transfer created',
  'transfer.in_progress': 'Attempt started',
  'transfer.completed': 'File delivered and verified',
  'transfer.failed': 'Transfer failed, no retry left',
  'transfer.cancelled': 'Transfer cancelled',
  'transfer.marker_written': 'Marker written',
  'transfer.marker_failed': 'Marker could not be written',
  'transfer.source_deleted': 'Source deleted',
  'transfer.source_moved': 'Source moved',
  'transfer.source_kept': 'Source kept, for a reason',
  'batch.completed': 'Batch ended',
  'flow.run_completed': 'Run of a flow ended',
  'flow.run_failed': 'Folder of a flow cannot be listed',
  'flow.recovered': 'Folder of a flow can be listed again',
  'endpoint.connectivity_lost': 'Endpoint became unreachable',
  'key.expiring_soon': `API key expires within ${EXPIRING_SOON_DAYS} days`,
  'log.checkpoint': 'Checkpoint of the log signed (scope audit:read)',
};
