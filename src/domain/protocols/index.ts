import type { z } from 'zod';
import { azure } from './azure.ts';
import { ftps } from './ftps.ts';
import type { CredentialsOf, Protocol, SecretName, SettingsOf, SignInWay } from './protocol.ts';
import { s3 } from './s3.ts';
import { sftp } from './sftp.ts';

/**
 * Every protocol. To add one, write its file, add it here, and write an adapter in
 * `src/adapters/files`.
 */
export const PROTOCOLS = [sftp, ftps, s3, azure] as const;

type Known = (typeof PROTOCOLS)[number];
export type ProtocolName = Known['name'];
export type SignIn = { [Name in ProtocolName]: keyof Named<Name>['signIns'] }[ProtocolName];

type Named<Name extends ProtocolName> = Extract<Known, { name: Name }>;

/** An endpoint's settings: where its server is and how to connect to it, without secrets. */
export type EndpointSettings = { [Name in ProtocolName]: SettingsFor<Name> }[ProtocolName];
export type SettingsFor<Name extends ProtocolName> = SettingsOf<
  Name,
  Named<Name>['fields'],
  Named<Name>['signIns']
>;

/** The credentials that the vault holds for an endpoint; one shape for each way to sign in. */
export type EndpointCredentials = { [Name in ProtocolName]: CredentialsFor<Name> }[ProtocolName];
export type CredentialsFor<Name extends ProtocolName> = CredentialsOf<Named<Name>['signIns']>;

/** The fields of a request, secrets included, and the names of the secrets among them. */
export type FieldsFor<Name extends ProtocolName> = Named<Name>['fields'];
export type SecretsFor<Name extends ProtocolName> = SecretName<Named<Name>['signIns']>;

/** The facts of any protocol, for code that treats all protocols alike. */
export type AnyProtocol = Protocol<
  ProtocolName,
  z.ZodRawShape,
  Readonly<Record<string, SignInWay>>,
  EndpointSettings
>;

export const PROTOCOL_NAMES = PROTOCOLS.map(({ name }) => name) as [ProtocolName];

/** The ways to sign in of all protocols, each once. */
export const SIGN_INS = [...new Set(PROTOCOLS.flatMap(({ signIns }) => Object.keys(signIns)))] as [
  SignIn,
];

/** Small files that one connection moves at a time, by protocol. */
export const FILES_PER_CONNECTION = Object.fromEntries(
  PROTOCOLS.map((protocol) => [
    protocol.name,
    'filesPerConnection' in protocol ? protocol.filesPerConnection : 1,
  ]),
) as Record<ProtocolName, number>;

const BY_NAME = Object.fromEntries(PROTOCOLS.map((protocol) => [protocol.name, protocol]));

export function protocolOf({ protocol }: { protocol: ProtocolName }): AnyProtocol {
  return BY_NAME[protocol] as AnyProtocol;
}
