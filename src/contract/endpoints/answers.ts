import { z } from 'zod';
import type { EndpointOptions } from '../../domain/endpoints/endpoint.ts';
import { viaType } from '../../domain/protocols/fields.ts';
import {
  type AnyProtocol,
  type EndpointSettings,
  PROTOCOLS,
  SIGN_INS,
} from '../../domain/protocols/index.ts';
import { timestamp } from '../instants.ts';
import { account } from '../keys.ts';
import { transferErrorCode } from '../transfers/errors.ts';
import { endpointId, requestOf, schemaName, secretsOf } from './requests.ts';

const fingerprint = z
  .string()
  .meta({ examples: ['SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU'] });

const endpointMessage = {
  message: z.string().meta({ examples: ['The server does not answer'] }),
  advice: z.string().meta({ examples: ['Check that the server runs and can be reached.'] }),
};

const health = z
  .strictObject({
    failures_in_row: z
      .int()
      .describe('Network failures, of probes and transfers; three make an outage.'),
    successes_in_row: z.int().describe('Two end an outage.'),
    last_success_at: timestamp
      .nullable()
      .describe(
        'When a probe, a test or a transfer last connected. A probe checks the host key or the ' +
          'certificate and does not sign in, so the credentials may be wrong all the same: ' +
          '`error` says so once a sign-in was rejected, and a test tries one.',
      ),
    last_probe_at: timestamp.nullable(),
    latency_ms: z.int().nullable().describe('How long the last probe took.'),
    fingerprint: fingerprint.nullable().describe('Last host key or certificate of the server.'),
    error: z
      .strictObject({ code: transferErrorCode, ...endpointMessage })
      .meta({ id: 'EndpointHealthError' })
      .nullable()
      .describe(
        'Null if the last probe or transfer succeeded. `auth_failed` after a rejected sign-in, ' +
          'until one with the same credentials succeeds or the credentials are replaced.',
      ),
    error_since: timestamp
      .nullable()
      .describe(
        'When the first error in a row was seen. Null without an error, and for one from before ' +
          'an upgrade to the version that records it.',
      ),
  })
  .meta({ id: 'EndpointHealth' });
export type EndpointHealth = z.output<typeof health>;

const standing = z.strictObject({
  id: endpointId,
  accounts: z.array(account).nullable().describe('Accounts that may use it; null for all.'),
  has_credentials: z
    .enum(SIGN_INS)
    .describe('Kinds of the stored credentials. Their values are never shown.'),
  bandwidth_now: z
    .int()
    .nullable()
    .describe('The limit of `bandwidth` at this moment, in bytes per second; null for none.'),
  paused: z.boolean().describe('No new transfers start on it.'),
  unreachable_since: timestamp.nullable().describe('Set while the endpoint cannot be reached.'),
  health: health.nullable().describe('Null if the endpoint was not probed or used yet.'),
  revision: z
    .int()
    .describe('Increases with every change, also of connectivity. In quotation marks, the `ETag`.'),
  configured_at: timestamp,
});

const acceptedHostKeys = z.array(
  z
    .strictObject({
      sha256: fingerprint,
      expires_at: timestamp.nullable().describe('The time from which it is no longer accepted.'),
    })
    .meta({ id: 'AcceptedHostKey' }),
);

const viaAnswer = z
  .strictObject({
    type: viaType,
    host: z.string().meta({ examples: ['jump.example.com'] }),
    port: z.int(),
    username: z
      .string()
      .nullable()
      .meta({ examples: ['waybill'] }),
    host_keys: acceptedHostKeys
      .nullable()
      .describe('The accepted host keys of a jump host. Null for a proxy.'),
  })
  .meta({ id: 'EndpointVia' })
  .nullable()
  .describe('The jump host or proxy on the way to the server. Its secrets are never shown.');

const hostKeyAnswers = {
  host_keys: acceptedHostKeys.describe('All accepted host keys; `host_key_sha256` is the first.'),
  announced_host_keys: z
    .array(
      z
        .strictObject({
          sha256: fingerprint,
          key_type: z.string().meta({ examples: ['ssh-ed25519'] }),
          announced_at: timestamp,
        })
        .meta({ id: 'AnnouncedHostKey' }),
    )
    .describe('Keys that the verified server has announced, and that are not accepted.'),
};

/**
 * A request's fields without the secrets. An endpoint always has the fields that a request may
 * omit.
 */
function answerOf(protocol: AnyProtocol) {
  const secrets = secretsOf(protocol).flat();
  const omitted = Object.entries(protocol.fields).filter(
    ([name, field]) => field instanceof z.ZodOptional && !secrets.includes(name),
  );
  const names = [...secrets, ...omitted.map(([name]) => name)];
  return requestOf(protocol)
    .omit(Object.fromEntries(names.map((name) => [name, true])) as never)
    .extend(Object.fromEntries(omitted.map(([name, field]) => [name, unwrapped(field)])))
    .extend('host_keys' in protocol.fields ? hostKeyAnswers : {})
    .extend(protocol.via ? { via: viaAnswer } : {})
    .extend(standing.shape)
    .meta({ id: schemaName(protocol, 'Endpoint') });
}

function unwrapped(field: z.core.$ZodType): z.core.$ZodType {
  return field instanceof z.ZodOptional ? field.unwrap() : field;
}

export type Endpoint = EndpointSettings &
  Required<EndpointOptions> & { name: string } & z.output<typeof standing>;

/** By protocol; `host_key_sha256` is null until a host key has been accepted. */
export const endpoint: z.ZodType<Endpoint> = z
  .discriminatedUnion('protocol', PROTOCOLS.map((protocol) => answerOf(protocol)) as never)
  .meta({ id: 'Endpoint' });

export const endpointList = z
  .strictObject({ data: z.array(endpoint).describe('By name.') })
  .meta({ id: 'EndpointList' });
export type EndpointList = z.output<typeof endpointList>;

const STEPS = [
  'resolve',
  'via',
  'connect',
  'sign_in',
  'list',
  'write',
  'rename',
  'read',
  'remove',
] as const;
export type EndpointTestStep = (typeof STEPS)[number];

/**
 * One line of the answer to an endpoint test: each step as it happens, and the result at the end.
 */
export const testLine = z
  .discriminatedUnion('type', [
    z
      .strictObject({
        type: z.literal('step'),
        step: z.enum(STEPS).meta({ id: 'EndpointTestStepName' }),
        ok: z.boolean(),
        ms: z.int(),
        at: timestamp,
        detail: z.string().optional().describe('What a step that passed has found.'),
        code: transferErrorCode.optional().describe('The error of a step that failed.'),
        message: z.string().optional().describe('What went wrong in a step that failed.'),
        advice: z.string().optional().describe('What to do about a step that failed.'),
      })
      .meta({ id: 'EndpointTestStep' }),
    z
      .strictObject({
        type: z.literal('result'),
        ok: z.boolean(),
        fingerprint: fingerprint
          .nullable()
          .describe('Host key or certificate of the server; null if it presents none.'),
        write_bps: z.int().nullable().describe('Bits per second, with a probe file of 4 MiB.'),
        read_bps: z.int().nullable(),
      })
      .meta({ id: 'EndpointTestResult' }),
  ])
  .meta({ id: 'EndpointTestLine' });
export type TestLine = z.output<typeof testLine>;

export const fileList = z
  .strictObject({
    path: z.string().meta({ examples: ['/out'] }),
    data: z
      .array(
        z
          .strictObject({
            name: z.string().meta({ examples: ['report.csv'] }),
            type: z.enum(['file', 'directory', 'other']).meta({ id: 'FileType' }),
            size: z.int().nullable(),
            modified_at: timestamp.nullable(),
          })
          .meta({ id: 'FileListItem' }),
      )
      .describe('By name; 10,000 at most.'),
    truncated: z.boolean().describe('The folder holds more names than are shown.'),
  })
  .meta({ id: 'FileList' });
export type FileList = z.output<typeof fileList>;
