import {
  BASE_PATH_FIELD,
  BY_PASSWORD,
  basePath,
  HOST_FIELD,
  host,
  port,
  secret,
  USERNAME_FIELD,
  username,
} from '../../src/domain/protocols/fields.ts';
import {
  type CredentialsOf,
  defineProtocol,
  onServer,
  type SettingsOf,
} from '../../src/domain/protocols/protocol.ts';

const PORT = 4242;

/** A protocol that exists only in its test: files in the memory of an HTTP server. */
export const memory = defineProtocol({
  name: 'memory',
  label: 'Memory',
  ...onServer(() => PORT),
  fields: {
    host,
    port: port.default(PORT),
    base_path: basePath.default('/'),
    username,
    password: secret,
  },
  signIns: { password: BY_PASSWORD },
  form: {
    server: {
      host: HOST_FIELD,
      port: { label: 'Port', kind: 'number', placeholder: String(PORT) },
      base_path: BASE_PATH_FIELD,
      username: USERNAME_FIELD,
    },
    options: {},
  },
});

export type MemorySettings = SettingsOf<'memory', typeof memory.fields, typeof memory.signIns>;
export type MemoryCredentials = CredentialsOf<typeof memory.signIns>;
