import { z } from 'zod';
import { hostKey } from '../../domain/protocols/fields.ts';
import {
  type AnyProtocol,
  type FieldsFor,
  PROTOCOLS,
  type ProtocolName,
  protocolOf,
  type SecretsFor,
} from '../../domain/protocols/index.ts';
import type { SignInWay } from '../../domain/protocols/protocol.ts';
import { VIA_SECRETS, type Via, type ViaCredentials } from '../../domain/protocols/via.ts';
import { eachOnce } from '../each-once.ts';
import { requestedAccount } from '../keys.ts';
import { words } from '../search-words.ts';
import { bandwidth } from './bandwidth.ts';

export const endpointId = z.string().meta({ examples: ['end_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] });

/** Query of GET /v1/endpoints. */
export const endpointQuery = z.strictObject({
  q: words
    .optional()
    .describe(
      'Words, separated by spaces. Each must be a part of the name, the protocol, the host, the ' +
        'folder or bucket, or the id. Letters may be upper or lower case.',
    ),
});

export const endpointParams = z.object({ endpoint_id: endpointId });

export const DEFAULT_CONNECTIONS = 16;
const MAX_ACCOUNTS = 1_000;

const common = {
  name: z
    .string()
    .regex(
      /^[a-z0-9][a-z0-9-]{0,62}$/,
      'must be 1 to 63 lowercase letters, digits and hyphens, and not start with a hyphen',
    )
    .meta({ examples: ['archive'] }),
  max_connections: z
    .int()
    .min(1)
    .max(256)
    .default(DEFAULT_CONNECTIONS)
    .describe(
      'Transfers that use it at once. Each mover has as many connections at most for ' +
        'reading, and as many for writing.',
    ),
  accounts: z
    .array(requestedAccount)
    .min(1)
    .max(MAX_ACCOUNTS)
    .overwrite(eachOnce)
    .nullable()
    .default(null)
    .describe(`Accounts that may use it, at most ${MAX_ACCOUNTS}; all of them by default.`),
  overwrite: z.boolean().default(true).describe('Replace an existing destination file.'),
  bandwidth: bandwidth
    .nullable()
    .default(null)
    .describe(
      'Limits the bytes that all its transfers, reading and writing, move together; none by ' +
        'default. A change also holds for transfers that move.',
    ),
};

type Common<Name extends ProtocolName> = typeof common & { protocol: z.ZodLiteral<Name> };
type RequestFor<Name extends ProtocolName> = z.ZodObject<
  Common<Name> & Pick<FieldsFor<Name>, keyof FieldsFor<Name>>,
  z.core.$strict
>;

/** Returns the schema of a request for an endpoint of the protocol, credentials included. */
export function requestOf({ name, fields }: AnyProtocol) {
  return z.strictObject({ ...common, protocol: z.literal(name), ...fields });
}

/** Returns the name of a protocol's schema in the API's documentation. */
export function schemaName({ name }: AnyProtocol, kind: string): string {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}${kind}`;
}

const REQUESTS = PROTOCOLS.map((protocol) =>
  requestOf(protocol).meta({ id: schemaName(protocol, 'EndpointRequest') }),
) as unknown as [{ [Name in ProtocolName]: RequestFor<Name> }[ProtocolName]];

/** One endpoint as in a file or a request, credentials included. */
export const endpointRequest = z
  .discriminatedUnion('protocol', REQUESTS)
  .superRefine((value, context) => {
    requireOneSecret(value, context);
    requireSecretOfVia(value, context);
    refuseSecretsThatClash(value, context);
    refuseHostKeysThatClash(value, context);
  })
  .meta({ id: 'EndpointRequest' });
export type EndpointRequest = z.output<typeof endpointRequest>;

type UpdateFor<Name extends ProtocolName> = z.ZodObject<
  Common<Name> &
    Omit<FieldsFor<Name>, SecretsFor<Name>> & {
      [Secret in SecretsFor<Name>]: z.ZodOptional<z.ZodString>;
    },
  z.core.$strict
>;

/** Returns the schema of `requestOf` with every secret optional. */
function updateOf(protocol: AnyProtocol) {
  const secrets = secretsOf(protocol).flatMap((names) =>
    names.map((name) => [name, optional(protocol.fields[name] as z.ZodType)]),
  );
  return requestOf(protocol).extend(Object.fromEntries(secrets));
}

function optional(field: z.ZodType): z.ZodType {
  return field instanceof z.ZodOptional ? field : field.optional();
}

const UPDATES = PROTOCOLS.map((protocol) =>
  updateOf(protocol).meta({ id: schemaName(protocol, 'EndpointUpdate') }),
) as unknown as [{ [Name in ProtocolName]: UpdateFor<Name> }[ProtocolName]];

/** A complete definition of an existing endpoint. Without credentials, the stored ones stay. */
export const endpointUpdate = z
  .discriminatedUnion('protocol', UPDATES)
  .superRefine((value, context) => {
    if (hasCredentials(value)) requireSecretOfVia(value, context);
    else refuseSecretOfViaAlone(value, context);
    refuseSecretsThatClash(value, context);
    refuseHostKeysThatClash(value, context);
  })
  .meta({ id: 'EndpointUpdate' });
export type EndpointUpdate = z.output<typeof endpointUpdate>;

/** Returns true if an update has new credentials, so that it is a complete request. */
export function hasCredentials(update: EndpointUpdate): update is EndpointRequest {
  return secretsOf(protocolOf(update))
    .flat()
    .some((name) => isGiven(update, name));
}

/** Returns the way to sign in that takes the secrets of a request; undefined if none does. */
export function signInOf(value: EndpointUpdate): [name: string, way: SignInWay] | undefined {
  const protocol = protocolOf(value);
  const given = secretsOf(protocol)
    .flat()
    .filter((name) => isGiven(value, name));
  return Object.entries(protocol.signIns).find(
    ([, way]) =>
      given.every((name) => name in way.secrets) &&
      requiredOf(way).every((name) => given.includes(name)),
  );
}

/** Returns the names of the secrets of each of the protocol's ways to sign in. */
export function secretsOf({ signIns }: AnyProtocol): string[][] {
  return Object.values(signIns).map(({ secrets }) => Object.keys(secrets));
}

function requiredOf({ secrets }: SignInWay): string[] {
  return Object.keys(secrets).filter((name) => !secrets[name]?.optional);
}

/** Returns the first secret of each way to sign in, each once. A request needs one of them. */
function firstSecretsOf(protocol: AnyProtocol): string[] {
  return [...new Set(secretsOf(protocol).map(([first]) => first as string))];
}

type ViaRequest = Omit<Via, 'port'> & { port?: number | undefined } & ViaCredentials;

/** Returns the hop in a request; null if there is none. */
export function viaIn(value: EndpointUpdate): ViaRequest | null {
  return 'via' in value ? (value.via as ViaRequest | null) : null;
}

/** Returns the secrets of the hop in a request; null if it has none. */
export function viaSecretsIn(value: EndpointUpdate): ViaCredentials | null {
  const via = viaIn(value);
  const given = VIA_SECRETS.filter((name) => via?.[name] !== undefined);
  return given.length === 0
    ? null
    : Object.fromEntries(given.map((name) => [name, (via as ViaRequest)[name]]));
}

function requireSecretOfVia(value: EndpointUpdate, context: z.RefinementCtx): void {
  const via = viaIn(value);
  if (via === null || via.username === null || viaSecretsIn(value) !== null) return;
  const message =
    via.type === 'ssh' ? 'give password or private_key, or both' : 'is required for a username';
  context.addIssue({ code: 'custom', path: ['via', 'password'], message });
}

/** The vault holds the secrets of the hop and those of the endpoint as one record. */
function refuseSecretOfViaAlone(value: EndpointUpdate, context: z.RefinementCtx): void {
  if (viaSecretsIn(value) === null) return;
  const [[first] = []] = secretsOf(protocolOf(value));
  context.addIssue({
    code: 'custom',
    path: [first as string],
    message: 'is required: the credentials of the endpoint and of via are replaced together',
  });
}

function isGiven(value: EndpointUpdate, name: string): boolean {
  return (value as Record<string, unknown>)[name] !== undefined;
}

/** Body of POST /v1/endpoints/{id}/accept-host-key. */
export const hostKeyRequest = z
  .strictObject({ host_key_sha256: hostKey.describe('As the server shows it.') })
  .meta({ id: 'HostKeyRequest' });

/** Query of GET /v1/endpoints/{id}/files. */
export const filesQuery = z.strictObject({
  path: z
    .string()
    .default('/')
    .describe(
      'A folder, below the base path or prefix of the endpoint; it starts with a slash and ' +
        'is not percent-encoded twice.',
    ),
});

function requireOneSecret(value: EndpointRequest, context: z.RefinementCtx): void {
  const protocol = protocolOf(value);
  const names = firstSecretsOf(protocol);
  if (names.some((name) => isGiven(value, name))) return;
  const message = takesAll(protocol, names)
    ? `give ${names.join(' or ')}, or both`
    : `give either ${names.join(' or ')}`;
  context.addIssue({ code: 'custom', path: [names[0] as string], message });
}

/** Returns whether one way to sign in takes all these secrets. */
function takesAll(protocol: AnyProtocol, names: string[]): boolean {
  return secretsOf(protocol).some((way) => names.every((name) => way.includes(name)));
}

function refuseSecretsThatClash(value: EndpointUpdate, context: z.RefinementCtx): void {
  const clash = signInOf(value) ? undefined : clashIn(value);
  if (clash) context.addIssue({ code: 'custom', path: [clash.field], message: clash.message });
}

/** Returns what is wrong with secrets that fit no way to sign in. */
function clashIn(value: EndpointUpdate): { field: string; message: string } | undefined {
  const protocol = protocolOf(value);
  const given = firstSecretsOf(protocol).filter((name) => isGiven(value, name));
  if (!takesAll(protocol, given))
    return { field: given[0] as string, message: `give either ${given.join(' or ')}` };
  for (const way of Object.values(protocol.signIns)) {
    const required = requiredOf(way);
    const missing = required.find((name) => !isGiven(value, name));
    const other = Object.keys(way.secrets).find((name) => isGiven(value, name));
    if (missing === undefined || other === undefined) continue;
    return required.includes(other)
      ? { field: missing, message: 'is required: the two belong together' }
      : { field: other, message: `belongs to a ${missing}` };
  }
}

function refuseHostKeysThatClash(value: EndpointUpdate, context: z.RefinementCtx): void {
  if (!('host_keys' in value) || !value.host_keys?.length) return;
  const named = value.host_key_sha256;
  if (named === null || value.host_keys.some(({ sha256 }) => sha256 === named)) return;
  context.addIssue({
    code: 'custom',
    path: ['host_key_sha256'],
    message: 'must be one of host_keys, or absent',
  });
}
