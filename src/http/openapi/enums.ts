import { PROBLEMS } from '../../contract/problems.ts';
import { AFTER_REASON_CODES } from '../../contract/transfers/after.ts';
import { DELIVERY_STATUSES } from '../../contract/webhooks/deliveries.ts';
import { AUDIT_KINDS, AUDIT_TITLES } from '../../domain/audit.ts';
import { BATCH_STATUSES } from '../../domain/batches/batch.ts';
import { DAYS } from '../../domain/endpoints/bandwidth.ts';
import { PROTOCOL_NAMES, SIGN_INS } from '../../domain/protocols/index.ts';
import { ROLES } from '../../domain/role.ts';
import { SCOPES } from '../../domain/scope.ts';
import { anyOf } from '../../domain/text.ts';
import { CHANGES } from '../../domain/transfers/decider.ts';
import { TRANSFER_ERRORS } from '../../domain/transfers/errors.ts';
import { PRIORITIES, TRANSFER_STATUSES } from '../../domain/transfers/transfer.ts';
import { WAITING_REASONS } from '../../domain/transfers/waiting-for.ts';
import { WEBHOOK_EVENT_TYPES } from '../../domain/webhook.ts';
import type { Schema } from './schema.ts';

/**
 * Lists of values that several schemas use. Each is a component. Otherwise generators number their
 * copies, and the numbers change with the API.
 */
const LISTS: Record<string, readonly string[]> = {
  AfterReasonCode: AFTER_REASON_CODES,
  AuditEventType: Object.keys(AUDIT_TITLES),
  AuditKind: Object.keys(AUDIT_KINDS),
  BatchStatus: BATCH_STATUSES,
  BulkAction: Object.keys(CHANGES),
  Day: DAYS,
  DeliveryStatus: DELIVERY_STATUSES,
  Priority: PRIORITIES,
  ProblemCode: Object.keys(PROBLEMS),
  Protocol: PROTOCOL_NAMES,
  Role: ROLES,
  Scope: SCOPES,
  SignInKind: SIGN_INS,
  TransferErrorCode: Object.keys(TRANSFER_ERRORS),
  TransferStatus: TRANSFER_STATUSES,
  WaitingReason: WAITING_REASONS,
  WebhookEventType: WEBHOOK_EVENT_TYPES,
};

const NAMES = new Map(Object.entries(LISTS).map(([name, values]) => [keyOf(values), name]));

/**
 * Lists of answers that get new values within /v1. An `enum` of them would make a client in a typed
 * language reject the whole answer for one value that it does not know.
 */
const GROWING = [
  'AfterReasonCode',
  'AuditEventType',
  'ProblemCode',
  'Protocol',
  'SignInKind',
  'TransferErrorCode',
  'WaitingReason',
];

/**
 * Lists that grow too, and that requests also have. A request has one of the values so far. An
 * answer has the same list under another name, and does not exclude new values.
 */
const GROWING_IN_ANSWERS = ['AuditKind', 'Scope', 'WebhookEventType'];

const nameInAnswers = (name: string) => `Any${name}`;

export const ENUMS: Record<string, Schema> = Object.fromEntries(
  Object.entries(LISTS).flatMap(([name, values]) => {
    if (GROWING.includes(name)) return [[name, growing(values)]];
    const closed = [name, { type: 'string', enum: [...values] }];
    return GROWING_IN_ANSWERS.includes(name)
      ? [closed, [nameInAnswers(name), growing(values)]]
      : [closed];
  }),
);

/** Marks the schema of an answer if it is a list that gets new values. */
export function markGrowing(schema: Schema & { 'x-grows'?: boolean }): void {
  const name = Array.isArray(schema.enum) ? NAMES.get(keyOf(schema.enum)) : undefined;
  if (name !== undefined && GROWING_IN_ANSWERS.includes(name)) schema['x-grows'] = true;
}

function growing(values: readonly string[]): Schema {
  const description = `${anyOf(values.map((value) => `\`${value}\``))}. New values may follow.`;
  const examples = values.slice(0, 1);
  return { type: 'string', description, examples, 'x-extensible-enum': [...values] } as Schema;
}

/** Returns the schema with a reference in place of a list that has a name. */
export function withNamedEnum(schema: Schema & { 'x-grows'?: boolean }): Schema {
  const { type, enum: values, 'x-grows': grows, ...rest } = schema;
  const name = Array.isArray(values) && type === 'string' ? NAMES.get(keyOf(values)) : undefined;
  if (name === undefined) return schema;
  return { ...rest, $ref: `#/components/schemas/${grows ? nameInAnswers(name) : name}` };
}

function keyOf(values: readonly string[]): string {
  return values.join();
}
