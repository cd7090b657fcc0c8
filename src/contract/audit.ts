import { z } from 'zod';
import { DEFAULT_ACCOUNT } from '../domain/account.ts';
import {
  AUDIT_KINDS,
  AUDIT_TITLES,
  type AuditedEvent,
  type AuditKind,
  type AuditType,
} from '../domain/audit.ts';
import { text } from '../domain/text.ts';
import { toCsv } from './csv.ts';
import { position } from './events.ts';
import { instantLimit, isOrdered, notOrdered, timestamp } from './instants.ts';
import { countedPagination, pageQuery } from './pages.ts';

const kind = z.enum(Object.keys(AUDIT_KINDS) as AuditKind[]);
const type = z.enum(Object.keys(AUDIT_TITLES) as AuditType[]);

const filters = {
  kind: kind.optional().describe('Only events of this kind of subject.'),
  type: type.optional().describe('Only events of this type.'),
  actor: text
    .min(1)
    .optional()
    .describe(
      'Only events that this actor caused: an actor as events have it, the id or name of an API ' +
        'key, the user of a command line, or the email of a person.',
    )
    .meta({ examples: ['night job'] }),
  subject: text
    .min(1)
    .optional()
    .describe(
      'Only events of this subject: an id, the name of an endpoint, API key or flow, or the URL ' +
        'of a webhook.',
    )
    .meta({ examples: ['bank'] }),
  from_date: instantLimit('start')
    .optional()
    .describe('At or after this: a date (`YYYY-MM-DD`, UTC) or an RFC 3339 time with an offset.'),
  to_date: instantLimit('end')
    .optional()
    .describe(
      'At or before this: a date (`YYYY-MM-DD`, UTC, the whole day) or an RFC 3339 time with an ' +
        'offset.',
    ),
};
type AuditFilters = z.output<z.ZodObject<typeof filters>>;

/** Query of GET /v1/audit. */
export const auditQuery = z
  .strictObject({ ...filters, ...pageQuery })
  .refine(isOrdered, notOrdered);

/** Returns the filters as the read model takes them. */
export function toAuditFilter({ from_date, to_date, ...filter }: AuditFilters) {
  return { ...filter, from: from_date, to: to_date };
}

const auditItem = z
  .strictObject({
    id: z.string().meta({ examples: ['evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    occurred_at: timestamp,
    actor: z
      .string()
      .describe('Who caused the event.')
      .meta({ examples: ['console:key_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    actor_name: z
      .string()
      .nullable()
      .describe('Name of the API key, or email or name of the person. Null for other actors.')
      .meta({ examples: ['night job'] }),
    client_address: z
      .string()
      .nullable()
      .describe(
        'Address of the client whose request caused the event. For failed sign-ins of an IPv6 ' +
          'client, its network. Null if no request caused it, and for events of older versions.',
      )
      .meta({ examples: ['198.51.100.7'] }),
    type,
    title: z
      .string()
      .describe('What happened, in words.')
      .meta({ examples: ['Endpoint paused'] }),
    subject: z
      .strictObject({
        kind,
        id: z
          .string()
          .describe(
            'An id. For the kind `access` the id of the transfer that was read, what was ' +
              'exported (`log`, `audit_log`, `transfers`), or the address of failed sign-ins.',
          )
          .meta({ examples: ['end_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
        name: z
          .string()
          .nullable()
          .describe('Name of the endpoint or API key, URL of the webhook, or name of the file.')
          .meta({ examples: ['bank'] }),
      })
      .meta({ id: 'AuditSubject' }),
    account: z
      .string()
      .nullable()
      .describe('Account of the subject. Null for endpoints, which belong to the installation.')
      .meta({ examples: [DEFAULT_ACCOUNT] }),
    data: z.record(z.string(), z.unknown()).describe('The data of the event, without any secret.'),
    stream: z.string().meta({ examples: ['endpoint-end_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    revision: z.int().describe('Place of the event in its stream, from 0.'),
    position,
  })
  .meta({ id: 'AuditItem' });
export type AuditItem = z.output<typeof auditItem>;

export const auditList = z
  .strictObject({
    data: z.array(auditItem).describe('Newest first.'),
    pagination: countedPagination,
  })
  .meta({ id: 'AuditList' });
export type AuditList = z.output<typeof auditList>;

/** Returns an event as the audit log shows it. */
export function toAuditItem(row: AuditedEvent): AuditItem {
  const { event_id, occurred_at, actor, key_name, type, kind, subject_id, subject_name } = row;
  return {
    id: event_id,
    occurred_at,
    actor,
    actor_name: key_name ?? personIn(actor),
    client_address: row.client_address,
    type,
    title: AUDIT_TITLES[type],
    subject: { kind, id: subject_id, name: subject_name },
    account: row.account_id,
    data: row.data,
    stream: row.stream,
    revision: row.revision,
    position: String(row.position),
  };
}

/** Returns the email or name of a person from an actor: `person:LABEL (SUBJECT)`. */
function personIn(actor: string): string | null {
  return /^person:(.+) \([^()]*\)$/.exec(actor)?.[1] ?? null;
}

const COLUMNS = [
  'occurred_at',
  'actor',
  'actor_name',
  'type',
  'title',
  'subject_kind',
  'subject_id',
  'subject_name',
  'account',
  'data',
  'id',
  'stream',
  'revision',
  'position',
  'client_address',
] as const;

/** Yields events as CSV, a piece for each batch. */
export function auditToCsv(
  batches: AsyncIterable<AuditedEvent[]>,
): AsyncGenerator<string, void, void> {
  return toCsv(COLUMNS, records(batches));
}

async function* records(batches: AsyncIterable<AuditedEvent[]>) {
  for await (const rows of batches)
    yield rows.map((row) => {
      const { subject, data, ...item } = toAuditItem(row);
      return {
        ...item,
        subject_kind: subject.kind,
        subject_id: subject.id,
        subject_name: subject.name,
        data: JSON.stringify(data),
      };
    });
}
