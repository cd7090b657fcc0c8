import type { AcceptedHostKey, Endpoint } from '../../api/api-types.ts';
import { DEFAULT_CONNECTIONS } from '../../api/limits.ts';
import { type EndpointField, PROTOCOLS as FORMS, type ProtocolForm } from '../../api/protocols.ts';

export type Protocol = Endpoint['protocol'];
export type SignIn = Endpoint['has_credentials'];

/** The form fields of each protocol. */
export const PROTOCOLS: Record<Protocol, ProtocolForm> = FORMS;

/** The list of endpoints, as a link. */
export const LIST = { href: '/console/settings/endpoints', label: 'Show endpoints' };

export const LABELS = Object.values(PROTOCOLS).map(({ label }) => label);

export const nameField = (protocol: Protocol): EndpointField => ({
  name: 'name',
  label: 'Name',
  placeholder: 'bank',
  hint: `Transfers name it: ${protocol}://NAME/path`,
});

/** Returns the first kind of sign-in of a protocol. */
export function firstSignIn(protocol: Protocol): SignIn {
  return Object.keys(PROTOCOLS[protocol].signIn)[0] as SignIn;
}

/** Returns the names of all secrets of a protocol. */
export function secretsOf(protocol: Protocol): string[] {
  return Object.values(PROTOCOLS[protocol].signIn).flatMap(({ fields }) =>
    fields.map(({ name }) => name),
  );
}

/** Fields of every protocol. */
export const COMMON: EndpointField[] = [
  {
    name: 'max_connections',
    label: 'Connections at once',
    kind: 'number',
    initial: String(DEFAULT_CONNECTIONS),
  },
  {
    name: 'accounts',
    label: 'Accounts',
    placeholder: 'acc_default, acc_finance',
    hint: 'Accounts that may use it. Empty: every account',
  },
  {
    name: 'overwrite',
    label: 'Replace an existing destination file',
    kind: 'yes-no',
    initial: 'true',
  },
];

/** The texts of a form by field name. */
export type Values = Record<string, string>;

/** Returns all fields but the credentials, which the API never returns. */
export function settingsOf(protocol: Protocol): EndpointField[] {
  const { server, options } = PROTOCOLS[protocol];
  return [nameField(protocol), ...server, ...options, ...COMMON];
}

export function beginWith(fields: EndpointField[], endpoint: Endpoint | null): Values {
  const saved = (endpoint ?? {}) as Record<string, unknown>;
  const hop = Object.entries((saved.via ?? {}) as object);
  return {
    ...Object.fromEntries(
      fields.map(({ name, initial = '' }) => [name, endpoint ? textOf(saved[name]) : initial]),
    ),
    ...Object.fromEntries(hop.map(([name, value]) => [`via.${name}`, textOf(value)])),
  };
}

function textOf(value: unknown): string {
  if (!Array.isArray(value)) return String(value ?? '');
  return value.some((item) => typeof item === 'object')
    ? value.map(lineOf).join('\n')
    : value.join(', ');
}

function lineOf({ sha256, expires_at }: AcceptedHostKey): string {
  return expires_at ? `${sha256} ${expires_at}` : sha256;
}

/** Reads one host key a line: the fingerprint, and the day or time it expires. */
function hostKeysIn(text: string): AcceptedHostKey[] {
  return text
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([sha256]) => sha256)
    .map(([sha256 = '', ...rest]) => {
      // All of it: the service rejects a time with a blank, which would be cut to its day.
      const expiry = rest.join(' ');
      const isDay = /^\d{4}-\d{2}-\d{2}$/.test(expiry);
      return { sha256, expires_at: isDay ? `${expiry}T00:00:00Z` : expiry || null };
    });
}

/** Returns the host keys that the form accepts. */
export function fingerprintsIn({ host_keys = '' }: Values): string[] {
  return hostKeysIn(host_keys).map(({ sha256 }) => sha256);
}

/**
 * Returns the fields for the API. Leaves out empty fields: the API sets their defaults. `via.host`
 * is the field `host` of the object `via`.
 */
export function toBody(fields: EndpointField[], values: Values): Record<string, unknown> {
  const isHop = ({ name }: EndpointField) => name.startsWith('via.');
  const body = flatBody(
    fields.filter((field) => !isHop(field)),
    values,
  );
  const hop = Object.entries(flatBody(fields.filter(isHop), values)).map(([name, value]) => [
    name.slice('via.'.length),
    value,
  ]);
  return hop.length === 0 ? body : { ...body, via: Object.fromEntries(hop) };
}

/** Texts that never have a blank at an end. It comes with a text that is copied, and goes unseen. */
const WITHOUT_BLANKS = [
  'name',
  'host',
  'via.host',
  'bucket',
  'region',
  'endpoint_url',
  'account',
  'container',
  'access_key_id',
];

function flatBody(fields: EndpointField[], values: Values): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const { name, kind } of fields) {
    const typed = values[name] ?? '';
    const value = WITHOUT_BLANKS.includes(name) ? typed.trim() : typed;
    if (kind === 'yes-no') body[name] = value === 'true';
    else if (name === 'accounts' && value !== '')
      body[name] = value.split(',').map((account) => account.trim());
    else if (kind === 'host-keys') body[name] = hostKeysIn(value);
    else if (value !== '') body[name] = kind === 'number' ? Number(value) : value;
  }
  return body;
}

/** Returns the server and folder of an endpoint in one line. */
export function serverOf(endpoint: Endpoint): string {
  const values = endpoint as unknown as Record<string, unknown>;
  return PROTOCOLS[endpoint.protocol].address.replace(/\{(\w+)\}/g, (_, name) =>
    String(values[name]),
  );
}
