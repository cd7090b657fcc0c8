import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { z } from 'zod';
import { MAX_HOST_KEYS } from '../host-keys.ts';
import { plain, text } from '../text.ts';
import { VIA_TYPES, type Via, type ViaCredentials, type ViaType } from '../via.ts';

/** One field of the form for an endpoint. */
export interface FormField {
  label: string;
  kind?: 'number' | 'secret' | 'host-keys' | 'lines' | 'yes-no' | readonly string[];
  hint?: string;
  placeholder?: string;
  /** The value in the form of a new endpoint. */
  initial?: string;
}

export interface SecretField extends FormField {
  /** The way to sign in also works without it. */
  optional?: true;
}

/** One way to sign in: the secrets that it takes. The first of them is always required. */
export interface SignInWay {
  label: string;
  secrets: Readonly<Record<string, SecretField>>;
}

type SignIns = Readonly<Record<string, SignInWay>>;

/** The parts of a transfer URI that tell which endpoint it means. */
export interface UriParts {
  /** Host, bucket, Azure account, or the configuration name of an endpoint, in lower case. */
  authority: string;
  username: string | null;
  port: number | null;
  /** Percent-decoded; starts with a slash. */
  path: string;
}

/**
 * All facts about a protocol. `index.ts` lists the protocols; the adapter that speaks one is in
 * `src/adapters/files`.
 */
export interface Protocol<
  Name extends string,
  Fields extends z.ZodRawShape,
  Ways extends SignIns,
  Settings = SettingsOf<Name, Fields, Ways>,
> {
  /** Value of `protocol` in the API, and the scheme of transfer URIs. */
  name: Name;
  /** Name for readers. */
  label: string;
  /** The fields of a request, secrets included, in the order of the API's documentation. */
  fields: Fields;
  /** Ways to sign in, with labels for the form. An endpoint has exactly one. */
  signIns: Ways;
  /** Every field that is not a secret, with its label, in the order of the form. */
  form: {
    server: { readonly [Field in SettingName<Fields, Ways>]?: FormField };
    options: { readonly [Field in SettingName<Fields, Ways>]?: FormField };
  };
  /**
   * Small files that one connection moves at a time, each by requests of its own. Absent if a file
   * takes a whole connection.
   */
  filesPerConnection?: number;
  /** The hops that a connection can take. The protocol then has the field `via`. */
  via?: readonly ViaType[];
  /** The server and folder in one line; `{field}` stands for the value of a field. */
  address: string;
  /**
   * The port of an endpoint or URI that names none. Without this, a URI of the protocol names
   * neither a port nor a user.
   */
  defaultPort?(settings: Settings): number;
  /** Returns the host name or address that is dialled. */
  host(settings: Settings): string;
  /** Returns a string that identifies the server that receives the credentials. */
  audience(settings: Settings): string;
  /** Returns the path of a URI at this endpoint's server; null if the URI means another server. */
  locate(uri: UriParts, settings: Settings): string | null;
}

/** Names of the secrets: no answer of the API shows these fields. */
export type SecretName<Ways extends SignIns> = {
  [Way in keyof Ways]: keyof Ways[Way]['secrets'] & string;
}[keyof Ways];

type SettingName<Fields extends z.ZodRawShape, Ways extends SignIns> = Exclude<
  keyof Fields & string,
  SecretName<Ways> | 'via'
>;

/** An endpoint's settings: every field that is not a secret. */
export type SettingsOf<Name extends string, Fields extends z.ZodRawShape, Ways extends SignIns> = {
  protocol: Name;
} & {
  [Field in SettingName<Fields, Ways>]: Exclude<z.output<Fields[Field]>, undefined>;
} & {
  /** Absent without a hop. */
  via?: Via | null;
};

/** The credentials that the vault holds for an endpoint: the secrets of one way to sign in. */
export type CredentialsOf<Ways extends SignIns> = {
  [Way in keyof Ways]: Secrets<Ways[Way]['secrets']>;
}[keyof Ways] & { via?: ViaCredentials };

type Secrets<Fields extends SignInWay['secrets']> = {
  [Field in Exclude<keyof Fields, OptionalSecret<Fields>>]: string;
} & { [Field in OptionalSecret<Fields>]?: string | undefined };

type OptionalSecret<Fields extends SignInWay['secrets']> = {
  [Field in keyof Fields]: Fields[Field] extends { optional: true } ? Field : never;
}[keyof Fields];

/** Returns the facts with their types inferred. */
export function defineProtocol<
  const Name extends string,
  Fields extends z.ZodRawShape,
  const Ways extends SignIns,
>(
  protocol: Protocol<Name, Fields, Ways> & {
    // Every endpoint has a folder or a prefix, and every secret is a field of requests.
    fields: ({ base_path: z.ZodType } | { prefix: z.ZodType }) &
      Record<SecretName<Ways>, z.ZodType>;
  },
): Protocol<Name, Fields, Ways> {
  return protocol;
}

const MAX_URL = 2048;

/** Returns true for an IP address, and for a name that a URL can contain. */
function isHost(value: string): boolean {
  return isIP(value) !== 0 || (!/[:%[\]]/.test(value) && URL.canParse(`https://${value}`));
}

/** Returns true for one or more certificates if all of them can be parsed. */
function isCertificate(pem: string): boolean {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  try {
    return blocks.map((block) => new X509Certificate(block)).length > 0;
  } catch {
    return false;
  }
}

// These rules apply to requests only: a log may hold values that an older version accepted. The
// API's documentation shows `.regex` and `.max`, for answers too. It does not show `.refine`.
export const secret = text.min(1).max(16_384);
export const password = secret.meta({ examples: ['correct horse battery staple'] });
export const host = plain
  .min(1)
  .max(253)
  .regex(/^[^\s/@?#\\]+$/, { error: 'must be a host name or an address', abort: true })
  .refine(isHost, 'must be a host name or an address, an IPv6 address without brackets')
  .toLowerCase()
  .meta({ examples: ['files.example.com'] });
export const port = z.int().min(1).max(65_535);
export const username = plain
  .min(1)
  .max(256)
  .refine((name) => !/^\s+$/.test(name), 'must not be blank')
  .meta({ examples: ['waybill'] });
export const basePath = plain
  .max(1024)
  .regex(/^\//, 'must start with a slash')
  .refine((path) => !path.split('/').includes('..'), 'must not contain ..');
export const prefix = plain
  .max(1024)
  .refine((path) => !path.split('/').includes('..'), 'must not contain ..')
  // A URL parser removes such segments, so the request would ask for another name.
  .refine((path) => !path.split('/').includes('.'), 'must not contain . as a segment')
  .refine((path) => !path.includes('\\'), 'must not contain a backslash');
export const pem = text
  .regex(/^\s*-----BEGIN CERTIFICATE-----/, {
    error: 'must be a certificate in PEM form',
    abort: true,
  })
  .refine(isCertificate, 'must be a certificate in PEM form: this one cannot be read')
  .nullable()
  .default(null);
export const url = z
  .url({ protocol: /^https?$/, error: 'must be an http or https URL', abort: true })
  // A URL parser would silently drop or encode these.
  .refine(
    (value) => !/[\s\p{C}\\]/u.test(value),
    'must not contain spaces, backslashes or characters that are not shown',
  )
  .refine(
    (value) => !/[?#]|^[^/]*\/\/[^/]*@/.test(value),
    'must not contain a user, a query or a fragment',
  )
  .refine((value) => value.length <= MAX_URL, `must have at most ${MAX_URL} characters`)
  .nullable()
  .default(null);
export const hostKey = z
  .string()
  .regex(
    /^SHA256:[A-Za-z0-9+/]{43}$/,
    'must be as `ssh-keygen -l` prints it: SHA256: and 43 characters',
  )
  .meta({ examples: ['SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU'] });

export const hostKeys = z
  .array(
    z
      .strictObject({
        sha256: hostKey,
        expires_at: z.iso
          .datetime({ offset: true, error: 'must be an RFC 3339 time with an offset' })
          .nullable()
          .default(null)
          .meta({ examples: ['2027-06-30T00:00:00.000Z'] })
          .describe('From then on the key is no longer accepted. Null: it never expires.'),
      })
      .meta({ id: 'HostKey' }),
  )
  .max(MAX_HOST_KEYS)
  .refine(
    (keys) => new Set(keys.map(({ sha256 }) => sha256)).size === keys.length,
    'must name each key once',
  )
  .nullable()
  .default(null)
  .describe(
    'All accepted host keys. `host_key_sha256` is the first. Empty: a change keeps the accepted ' +
      'keys, for the same host and port.',
  );

/** Returns the field of a request for the hop before the server. */
function via<const Types extends readonly [ViaType, ...ViaType[]]>(types: Types) {
  const hop = z.strictObject({
    type: z.enum(types),
    host,
    port: port.optional().describe('By default 22 (ssh), 3128 (http) or 1080 (socks5).'),
    username: username.nullable().default(null),
    password: password.optional(),
    private_key: secret.optional().describe('Of a jump host.'),
    passphrase: secret.optional().describe('Of the private key.'),
    host_keys: hostKeys.describe('The accepted host keys of a jump host.'),
  });
  return hop
    .superRefine((value, context) => {
      const refuse = (field: string, message: string) =>
        context.addIssue({ code: 'custom', path: [field], message });
      if (value.type === 'ssh') {
        if (value.username === null) refuse('username', 'is required for a jump host');
        if (value.password !== undefined && value.private_key !== undefined)
          refuse('password', 'give either password or private_key');
        if (value.passphrase !== undefined && value.private_key === undefined)
          refuse('passphrase', 'belongs to a private_key');
        return;
      }
      for (const field of ['private_key', 'passphrase'] as const)
        if (value[field] !== undefined) refuse(field, 'is for a jump host only');
      if (value.host_keys?.length) refuse('host_keys', 'is for a jump host only');
      if (value.password !== undefined && value.username === null)
        refuse('username', 'is required for a password');
    })
    .meta({ id: types.length > 2 ? 'ViaHop' : 'ViaProxy' })
    .nullable()
    .default(null)
    .describe('A hop on the way to the server: a proxy or, for SFTP, a jump host. Null: none.');
}

export const PROXIES = ['http', 'socks5'] as const satisfies ViaType[];
export const viaHop = via(VIA_TYPES);
export const viaProxy = via(PROXIES);

export const HOST_FIELD: FormField = { label: 'Host', placeholder: 'files.example.com' };
export const USERNAME_FIELD: FormField = { label: 'User name' };
export const BASE_PATH_FIELD: FormField = {
  label: 'Base path',
  initial: '/',
  hint: 'Transfers can reach only files below this folder',
};
export const PREFIX_FIELD: FormField = {
  label: 'Prefix',
  placeholder: 'incoming/',
  hint: 'Transfers can reach only names that begin with this prefix',
};
export const CA_FIELD: FormField = {
  label: 'CA certificate',
  kind: 'lines',
  placeholder: '-----BEGIN CERTIFICATE-----',
  hint: 'Needed only if your own CA signed the server’s certificate',
};
export const BY_PASSWORD = {
  label: 'Password',
  secrets: { password: { label: 'Password', kind: 'secret' } },
} as const satisfies SignInWay;

interface ServerSettings {
  host: string;
  port: number;
}

/** Returns the facts of a protocol whose endpoints are a user's files on one host and port. */
export function onServer<Settings extends ServerSettings>(
  defaultPort: (settings: Settings) => number,
) {
  return {
    defaultPort,
    address: '{host}:{port}{base_path}',
    host: (settings: Settings) => settings.host,
    audience: (settings: Settings) => `${settings.host}:${settings.port}`,
    locate(uri: UriParts, settings: Settings): string | null {
      const isHere =
        hostName(uri.authority) === hostName(settings.host) &&
        (uri.port ?? defaultPort(settings)) === settings.port;
      return isHere ? uri.path : null;
    },
  };
}

/** Normalizes a host for comparison. An IPv6 address has brackets in a URI, not in the settings. */
function hostName(text: string): string {
  return text
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}
