import { z } from 'zod';
import { timestamp, transferErrorCode } from '../../commands/answers.ts';
import { ENDPOINT_FIELDS, endpointRequest, endpointUpdate } from '../../commands/requests.ts';
import { SIGN_INS } from '../../domain/endpoint.ts';

const { sftp, ftps, s3, azure } = ENDPOINT_FIELDS;
export const fingerprint = z.string().meta({ examples: ['SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU'] });

export const endpointParams = z.object({ endpoint_id: z.string().meta({ examples: ['end_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }) });

export const endpointBody = endpointRequest.meta({ id: 'EndpointRequest' });
export const endpointUpdateBody = endpointUpdate.meta({ id: 'EndpointUpdate' });
export const hostKeyBody = z.strictObject({
  host_key_sha256: sftp.shape.host_key_sha256.unwrap().unwrap().describe('As the server shows it.'),
});

const health = z
  .strictObject({
    failures_in_row: z.int().describe('Network failures, of probes and transfers; three make an outage.'),
    successes_in_row: z.int().describe('Two end an outage.'),
    last_success_at: timestamp.nullable(),
    last_probe_at: timestamp.nullable(),
    latency_ms: z.int().nullable().describe('How long the last probe took.'),
    fingerprint: fingerprint.nullable().describe('Host key or certificate that was last shown.'),
    error: z
      .strictObject({ code: transferErrorCode, message: z.string(), advice: z.string() })
      .nullable()
      .describe('null where the last probe or transfer found all in order.'),
  })
  .meta({ id: 'EndpointHealth' });

const standing = {
  id: z.string().meta({ examples: ['end_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
  has_credentials: z.enum(SIGN_INS).describe('Which kind it signs in with. They are never shown.'),
  paused: z.boolean().describe('Nothing new is started on it.'),
  unreachable_since: timestamp.nullable().describe('Set while it can not be reached.'),
  health: health.nullable().describe('null for one that was not probed or used yet.'),
  revision: z.int().describe('Goes up with every change.'),
  configured_at: timestamp,
};

/** By protocol; `host_key_sha256` is null until it has been accepted. */
export const endpoint = z
  .discriminatedUnion('protocol', [
    sftp.omit({ password: true, private_key: true, passphrase: true }).extend(standing),
    ftps.omit({ password: true, port: true }).extend({ port: z.int(), ...standing }),
    s3.omit({ access_key_id: true, secret_access_key: true }).extend(standing),
    azure.omit({ account_key: true, sas_token: true }).extend(standing),
  ])
  .meta({ id: 'Endpoint' });
export type Endpoint = z.output<typeof endpoint>;

export const endpointList = z.strictObject({ data: z.array(endpoint).describe('By name.') }).meta({ id: 'EndpointList' });
export type EndpointList = z.output<typeof endpointList>;

const STEPS = ['resolve', 'connect', 'sign_in', 'list', 'write', 'rename', 'read', 'remove'] as const;

/** One line of the answer to a test: the steps as they happen, and at last what came of it. */
export const testLine = z
  .union([
    z.strictObject({
      type: z.literal('step'),
      step: z.enum(STEPS),
      ok: z.literal(true),
      ms: z.int(),
      at: timestamp,
      detail: z.string(),
    }),
    z.strictObject({
      type: z.literal('step'),
      step: z.enum(STEPS),
      ok: z.literal(false),
      ms: z.int(),
      at: timestamp,
      code: transferErrorCode,
      message: z.string(),
      advice: z.string().describe('What to do about it.'),
    }),
    z.strictObject({
      type: z.literal('result'),
      ok: z.boolean(),
      fingerprint: fingerprint.nullable().describe('Host key or certificate that the server shows; null where it shows none.'),
      write_bps: z.int().nullable().describe('Bits per second, with a probe file of 4 MiB.'),
      read_bps: z.int().nullable(),
    }),
  ])
  .meta({ id: 'EndpointTestLine' });
export type TestLine = z.output<typeof testLine>;

export const filesQuery = z.strictObject({
  path: z
    .string()
    .default('/')
    .describe('A folder, below the base path or prefix of the endpoint; it starts with a slash and is not percent-encoded twice.'),
});

export const fileList = z
  .strictObject({
    path: z.string(),
    data: z
      .array(
        z.strictObject({
          name: z.string(),
          type: z.enum(['file', 'directory', 'other']),
          size: z.int().nullable(),
          modified_at: timestamp.nullable(),
        }),
      )
      .describe('By name; 10,000 at most.'),
    truncated: z.boolean().describe('The folder holds more names than are shown.'),
  })
  .meta({ id: 'FileList' });
export type FileList = z.output<typeof fileList>;
