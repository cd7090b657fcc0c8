import type { z } from 'zod';
import type { Via, ViaCredentials, ViaType } from './via.ts';

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

/**
 * Normalizes a host for comparison: `::1` and `0:0::1` are one address, `bücher.example` and
 * `xn--bcher-kva.example` one name. An IPv6 address has brackets in a URI, not in the settings.
 */
function hostName(text: string): string {
  const name = text
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
  // Most hosts need no parser, and a new transfer compares its hosts with those of all endpoints.
  if (/^[a-z0-9._-]*$/.test(name)) return name;
  return URL.parse(`http://${name.includes(':') ? `[${name}]` : name}`)?.hostname ?? name;
}
