import type { Endpoint } from '../../api/operations.ts';

export type Protocol = Endpoint['protocol'];
export type SignIn = Endpoint['has_credentials'];

/** One field of an endpoint, under the name that the API has for it. */
export interface EndpointField {
  name: string;
  label: string;
  kind?: 'number' | 'secret' | 'fingerprint' | 'lines' | 'yes-no' | readonly string[];
  hint?: string;
  placeholder?: string;
  /** What a new endpoint begins with. */
  initial?: string;
}

interface ProtocolFields {
  label: string;
  server: EndpointField[];
  /** Ways to sign in; an endpoint has one. */
  signIn: Partial<Record<SignIn, { label: string; fields: EndpointField[] }>>;
  options: EndpointField[];
}

const BASE_PATH: EndpointField = { name: 'base_path', label: 'Base path', initial: '/', hint: 'Transfers reach what lies below it' };
const USERNAME: EndpointField = { name: 'username', label: 'User name' };
const PREFIX: EndpointField = {
  name: 'prefix',
  label: 'Prefix',
  placeholder: 'incoming/',
  hint: 'Transfers reach names that begin with it',
};
const CA: EndpointField = {
  name: 'ca_pem',
  label: 'CA certificate',
  kind: 'lines',
  placeholder: '-----BEGIN CERTIFICATE-----',
  hint: 'Only where a CA of your own has signed the server’s certificate',
};
const secret = (name: string, label: string): EndpointField => ({ name, label, kind: 'secret' });
const password = { label: 'Password', fields: [secret('password', 'Password')] };

/** What each protocol needs, and nothing else. */
export const PROTOCOLS: Record<Protocol, ProtocolFields> = {
  sftp: {
    label: 'SFTP',
    server: [
      { name: 'host', label: 'Host', placeholder: 'files.example.com' },
      { name: 'port', label: 'Port', kind: 'number', placeholder: '22' },
      BASE_PATH,
      {
        name: 'host_key_sha256',
        label: 'Host key',
        kind: 'fingerprint',
        placeholder: 'SHA256:',
        hint: 'Its fingerprint. Leave it empty to be shown it by the test, and asked',
      },
      USERNAME,
    ],
    signIn: {
      password,
      private_key: {
        label: 'Private key',
        fields: [
          { name: 'private_key', label: 'Private key', kind: 'lines', placeholder: '-----BEGIN OPENSSH PRIVATE KEY-----' },
          { ...secret('passphrase', 'Passphrase'), hint: 'Where the key has one' },
        ],
      },
    },
    options: [],
  },
  ftps: {
    label: 'FTPS',
    server: [
      { name: 'host', label: 'Host', placeholder: 'files.example.com' },
      {
        name: 'tls',
        label: 'TLS',
        kind: ['explicit', 'implicit'],
        hint: 'Explicit begins in plain text and turns to TLS before signing in',
      },
      { name: 'port', label: 'Port', kind: 'number', hint: 'Left empty: 21 with explicit TLS, 990 with implicit' },
      BASE_PATH,
      USERNAME,
    ],
    signIn: { password },
    options: [CA],
  },
  s3: {
    label: 'S3',
    server: [
      { name: 'bucket', label: 'Bucket' },
      PREFIX,
      { name: 'region', label: 'Region', initial: 'us-east-1' },
      {
        name: 'endpoint_url',
        label: 'Service URL',
        placeholder: 'https://s3.example.com',
        hint: 'Left empty: Amazon’s own for the region',
      },
    ],
    signIn: {
      access_key: {
        label: 'Access key',
        fields: [{ name: 'access_key_id', label: 'Access key id' }, secret('secret_access_key', 'Secret access key')],
      },
    },
    options: [
      { name: 'force_path_style', label: 'The bucket stands in the path, not in the host name', kind: 'yes-no' },
      { name: 'storage_class', label: 'Storage class', placeholder: 'STANDARD' },
      { name: 'sse', label: 'Encryption at rest', kind: ['', 'AES256', 'aws:kms'] },
      { name: 'sse_kms_key_id', label: 'KMS key id', hint: 'With aws:kms' },
      CA,
    ],
  },
  azure: {
    label: 'Azure Blob',
    server: [
      { name: 'account', label: 'Storage account' },
      { name: 'container', label: 'Container' },
      PREFIX,
      { name: 'endpoint_url', label: 'Service URL', hint: 'Left empty: https://ACCOUNT.blob.core.windows.net' },
    ],
    signIn: {
      account_key: { label: 'Account key', fields: [secret('account_key', 'Account key')] },
      sas_token: { label: 'SAS token', fields: [secret('sas_token', 'SAS token')] },
    },
    options: [CA],
  },
};

export const NAME: EndpointField = { name: 'name', label: 'Name', placeholder: 'bank', hint: 'Transfers name it: sftp://NAME/path' };

/** What every protocol has. */
export const COMMON: EndpointField[] = [
  { name: 'max_connections', label: 'Connections at once', kind: 'number', initial: '16' },
  { name: 'accounts', label: 'Accounts', placeholder: 'acc_default, acc_finance', hint: 'Who may use it. Left empty: every account' },
  { name: 'overwrite', label: 'Replace a destination file that is there', kind: 'yes-no', initial: 'true' },
];

/** A form's text by the name of the field. */
export type Values = Record<string, string>;

/** All but the credentials: these are never read back. */
export function settingsOf(protocol: Protocol): EndpointField[] {
  const { server, options } = PROTOCOLS[protocol];
  return [NAME, ...server, ...options, ...COMMON];
}

export function beginWith(fields: EndpointField[], endpoint: Endpoint | null): Values {
  const saved = (endpoint ?? {}) as Record<string, unknown>;
  return Object.fromEntries(fields.map(({ name, initial = '' }) => [name, endpoint ? textOf(saved[name]) : initial]));
}

function textOf(value: unknown): string {
  return Array.isArray(value) ? value.join(', ') : String(value ?? '');
}

/** The fields as the API takes them. What is empty is left out, and has its default there. */
export function toBody(fields: EndpointField[], values: Values): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const { name, kind } of fields) {
    const value = values[name] ?? '';
    if (kind === 'yes-no') body[name] = value === 'true';
    else if (name === 'accounts' && value !== '') body[name] = value.split(',').map((account) => account.trim());
    else if (value !== '') body[name] = kind === 'number' ? Number(value) : value;
  }
  return body;
}

/** The server that it stands for, in a line. */
export function serverOf(endpoint: Endpoint): string {
  switch (endpoint.protocol) {
    case 'sftp':
    case 'ftps':
      return `${endpoint.host}:${endpoint.port}${endpoint.base_path}`;
    case 's3':
      return `${endpoint.bucket}/${endpoint.prefix}`;
    case 'azure':
      return `${endpoint.account}/${endpoint.container}/${endpoint.prefix}`;
  }
}
