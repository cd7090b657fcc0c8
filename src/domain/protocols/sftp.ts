import {
  BASE_PATH_FIELD,
  BY_PASSWORD,
  basePath,
  HOST_FIELD,
  host,
  hostKey,
  hostKeys,
  password,
  port,
  secret,
  USERNAME_FIELD,
  username,
  viaHop,
} from './fields.ts';
import { type CredentialsOf, defineProtocol, onServer, type SettingsOf } from './protocol.ts';
import { VIA_TYPES } from './via.ts';

const PORT = 22;

const KEY_AND_PASSPHRASE = {
  private_key: {
    label: 'Private key',
    kind: 'lines',
    placeholder: '-----BEGIN OPENSSH PRIVATE KEY-----',
  },
  passphrase: {
    label: 'Passphrase',
    kind: 'secret',
    hint: 'Needed only if the key has one',
    optional: true,
  },
} as const;

export const sftp = defineProtocol({
  name: 'sftp',
  label: 'SFTP',
  ...onServer(() => PORT),
  fields: {
    host,
    port: port.default(PORT),
    base_path: basePath.default('/'),
    username,
    password: password.optional(),
    private_key: secret.optional(),
    passphrase: secret.optional(),
    // Null until an administrator accepts a host key.
    host_key_sha256: hostKey.nullable().default(null),
    host_keys: hostKeys,
    via: viaHop,
  },
  signIns: {
    password: BY_PASSWORD,
    private_key: { label: 'Private key', secrets: KEY_AND_PASSPHRASE },
    // For a server that requires both.
    private_key_and_password: {
      label: 'Private key and password',
      secrets: { ...KEY_AND_PASSPHRASE, ...BY_PASSWORD.secrets },
    },
  },
  form: {
    server: {
      host: HOST_FIELD,
      port: { label: 'Port', kind: 'number', placeholder: String(PORT) },
      base_path: BASE_PATH_FIELD,
      username: USERNAME_FIELD,
      host_keys: {
        label: 'Host keys',
        kind: 'host-keys',
        placeholder: 'SHA256:... 2027-06-30',
        hint: 'A fingerprint in each line, and the day or time it expires, if it does. Leave empty: the test then shows the key and asks you to accept it',
      },
    },
    options: {},
  },
  filesPerConnection: 8,
  via: VIA_TYPES,
});

export type SftpSettings = SettingsOf<'sftp', typeof sftp.fields, typeof sftp.signIns>;
export type SftpCredentials = CredentialsOf<typeof sftp.signIns>;
