import { assertSameAudience } from '../../domain/endpoints/audience.ts';
import type { Endpoint, EndpointDefinition } from '../../domain/endpoints/endpoint.ts';
import {
  type EndpointCredentials,
  type EndpointSettings,
  protocolOf,
  type SignIn,
} from '../../domain/protocols/index.ts';
import type { SignInWay } from '../../domain/protocols/protocol.ts';
import type { Via, ViaType } from '../../domain/protocols/via.ts';
import {
  type EndpointRequest,
  type EndpointUpdate,
  hasCredentials,
  secretsOf,
  signInOf,
  viaIn,
  viaSecretsIn,
} from './requests.ts';

const VIA_PORTS: Record<ViaType, number> = { ssh: 22, http: 3128, socks5: 1080 };

/**
 * Returns the definition that an update asks for. Throws `validation_failed` if the stored
 * credentials would go to another server.
 */
export function editedDefinition(existing: Endpoint, request: EndpointUpdate): EndpointDefinition {
  const definition = definitionOf(request);
  if (!hasCredentials(request)) assertSameAudience(existing.settings, definition.settings);
  return definition;
}

/** Returns the definition in a request: everything except its secrets and its name. */
export function definitionOf(request: EndpointUpdate): Required<EndpointDefinition> {
  const { max_connections, accounts, overwrite, bandwidth } = request;
  return { max_connections, accounts, overwrite, bandwidth, settings: settingsOf(request) };
}

/** Returns the fields that are not secrets, in the order of the protocol's fields. */
function settingsOf(request: EndpointUpdate): EndpointSettings {
  const protocol = protocolOf(request);
  const secrets = secretsOf(protocol).flat();
  const names = Object.keys(protocol.fields).filter(
    (name) => !secrets.includes(name) && name !== 'via',
  );
  const settings = {
    ...pick(request, ['protocol', ...names]),
    ...hopOf(request),
  } as unknown as EndpointSettings;
  return 'port' in settings
    ? { ...settings, port: settings.port ?? protocol.defaultPort?.(settings) }
    : settings;
}

/** An endpoint without a hop has no such setting, as in logs of older versions. */
function hopOf(request: EndpointUpdate): { via?: Via } {
  const via = viaIn(request);
  if (via === null) return {};
  const { type, host, username } = via;
  const port = via.port ?? VIA_PORTS[type];
  const host_keys = type === 'ssh' ? (via.host_keys ?? []) : null;
  return { via: { type, host, port, username, host_keys } };
}

export function credentialsOf(request: EndpointRequest): {
  credentials: EndpointCredentials;
  sign_in: SignIn;
} {
  const [name, { secrets }] = signInOf(request) as [SignIn, SignInWay];
  const via = viaSecretsIn(request);
  const credentials = {
    ...pick(request, Object.keys(secrets)),
    ...(via && { via }),
  } as unknown as EndpointCredentials;
  return { credentials, sign_in: name };
}

function pick(request: EndpointUpdate, names: string[]): Record<string, unknown> {
  const values = request as Record<string, unknown>;
  return Object.fromEntries(names.map((name) => [name, values[name]]));
}
