import { z } from 'zod';
import {
  BASE_PATH_FIELD,
  BY_PASSWORD,
  basePath,
  CA_FIELD,
  HOST_FIELD,
  host,
  password,
  pem,
  port,
  USERNAME_FIELD,
  username,
} from './fields.ts';
import { type CredentialsOf, defineProtocol, onServer, type SettingsOf } from './protocol.ts';

const TLS = ['explicit', 'implicit'] as const;
const PORTS = { explicit: 21, implicit: 990 };

interface Server {
  host: string;
  port: number;
  tls: (typeof TLS)[number];
}

export const ftps = defineProtocol({
  name: 'ftps',
  label: 'FTPS',
  ...onServer(({ tls }: Server) => PORTS[tls]),
  fields: {
    host,
    port: port.optional(),
    base_path: basePath.default('/'),
    username,
    password: password.refine(
      (value) => !/[\r\n]/.test(value),
      'must not contain a line break, which ends a command of FTP',
    ),
    tls: z.enum(TLS).meta({ id: 'FtpsTls' }).default('explicit'),
    ca_pem: pem,
  },
  signIns: { password: BY_PASSWORD },
  form: {
    server: {
      host: HOST_FIELD,
      tls: {
        label: 'TLS',
        kind: TLS,
        hint: 'Explicit TLS starts in plain text and switches to TLS before it signs in',
      },
      port: {
        label: 'Port',
        kind: 'number',
        hint: `Leave empty to use ${PORTS.explicit} (explicit TLS) or ${PORTS.implicit} (implicit)`,
      },
      base_path: BASE_PATH_FIELD,
      username: USERNAME_FIELD,
    },
    options: { ca_pem: CA_FIELD },
  },
});

export type FtpsSettings = SettingsOf<'ftps', typeof ftps.fields, typeof ftps.signIns>;
export type FtpsCredentials = CredentialsOf<typeof ftps.signIns>;
