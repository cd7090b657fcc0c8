import type { OpenAPIV3_1 } from 'openapi-types';
import { z } from 'zod';
import { PAYLOADS, type PayloadType, payloadSchema } from '../../contract/webhooks/payloads.ts';
import { EXPIRING_SOON_DAYS } from '../../domain/attention.ts';

const SUMMARIES: Record<PayloadType, string> = {
  'transfer.created': 'A transfer is created',
  'transfer.in_progress': 'An attempt to move a file starts',
  'transfer.completed': 'A transfer completes',
  'transfer.failed': 'A transfer fails after its last attempt',
  'transfer.cancelled': 'A transfer is cancelled',
  'transfer.marker_written': 'The marker of a transfer is written',
  'transfer.marker_failed': 'The marker of a transfer could not be written',
  'transfer.source_deleted': 'The source of a completed transfer is deleted',
  'transfer.source_moved': 'The source of a completed transfer is moved',
  'transfer.source_kept': 'The source of a completed transfer is kept, for a reason',
  'batch.completed': 'The last transfer of a batch ends',
  'flow.run_completed': 'The last file of a run of a flow ends',
  'flow.run_failed': 'A folder of a flow cannot be listed. Sent once for each reason',
  'flow.recovered': 'The folder of a flow can be listed again',
  'endpoint.connectivity_lost': 'An endpoint that the account may use becomes unreachable',
  'key.expiring_soon': `An API key of the account expires within ${EXPIRING_SOON_DAYS} days`,
  'log.checkpoint': 'A checkpoint of the log is signed',
  ping: 'Sent on request, by `POST /v1/webhooks/{webhook_id}/ping`',
};

const DESCRIPTION = `
Answer with any 2xx within 10 seconds. Anything else is retried, with the same id and the same
bytes: after 1, 5 and 30 minutes, unless the operator set other delays. Verify the signature of the
raw body before you read it. A delivery may arrive twice: skip ids that you have handled.
`.trim();

const HEADERS: [name: string, description: string][] = [
  [
    'X-Service-Signature',
    'Lowercase hex HMAC-SHA-256 of the raw body; the key is the UTF-8 bytes of the secret.',
  ],
  ['webhook-id', 'The `id` in the payload (Standard Webhooks).'],
  [
    'webhook-timestamp',
    'Unix time of this attempt, in seconds. Reject attempts that are older than a few minutes.',
  ],
  [
    'webhook-signature',
    '`v1,` and the base64 HMAC-SHA-256 of `{webhook-id}.{webhook-timestamp}.{body}`. During ' +
      'the grace period of a rotation there are two, separated by a space. The key is the ' +
      'decoded base64 of a `whsec_` secret. For another secret, it is the bytes of the secret.',
  ],
];

const COMPONENTS = Object.fromEntries(
  Object.keys(PAYLOADS).map((type) => [type, register(type as PayloadType)]),
);

/** Registers a payload and its data as components of the document. Returns the component's name. */
function register(type: PayloadType): string {
  const words = type.split(/[._]/).map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  const name = `${words.join('')}Payload`;
  payloadSchema(type).meta({ id: name });
  z.globalRegistry.add(PAYLOADS[type], { id: `${words.join('')}Data` });
  return name;
}

/** Returns the section `webhooks` of the document. */
export function describePayloads(): Record<string, { post: OpenAPIV3_1.OperationObject }> {
  return Object.fromEntries(
    Object.entries(SUMMARIES).map(([type, summary]) => [type, { post: operation(type, summary) }]),
  );
}

function operation(type: string, summary: string): OpenAPIV3_1.OperationObject {
  return {
    operationId: `receive${COMPONENTS[type]}`,
    summary,
    description: DESCRIPTION,
    tags: ['Webhooks'],
    security: [],
    parameters: HEADERS.map(([name, description]) => ({
      name,
      in: 'header',
      required: true,
      description,
      schema: { type: 'string' },
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': { schema: { $ref: `#/components/schemas/${COMPONENTS[type]}` } },
      },
    },
    responses: {
      '2XX': { description: 'Delivered. The body is not read beyond 4 KiB.' },
      default: { description: 'Retried.' },
    },
  };
}
