import { z } from 'zod';
import { token } from '../text.ts';
import { CA_FIELD, PREFIX_FIELD, PROXIES, pem, prefix, secret, url, viaProxy } from './fields.ts';
import { type CredentialsOf, defineProtocol, type SettingsOf } from './protocol.ts';

const REGION = 'us-east-1';
const BUCKET = 'must be letters, digits, dots, hyphens and underscores, such as my-bucket';
// Servers reject a request whose headers are too long.
const MAX_KEY_ID = 512;
const ENCRYPTIONS = ['AES256', 'aws:kms'] as const;

/**
 * Returns true if a URL can contain the name as a bucket. On Ceph, a tenant and a colon may precede
 * the bucket.
 */
function isBucket(name: string): boolean {
  return /^([\w-]+:)?\w([\w.-]*\w)?$/.test(name);
}

/** Returns true if the name can be one label of a host name. */
function isLabel(name: string): boolean {
  return /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(name);
}

const name = token.min(1, { abort: true });

export const s3 = defineProtocol({
  name: 's3',
  label: 'S3',
  fields: {
    bucket: name
      .max(255)
      .refine(isBucket, BUCKET)
      .meta({ examples: ['archive'] }),
    prefix: prefix.default(''),
    region: name.max(64).refine(isLabel, 'must be a name such as eu-west-1').default(REGION),
    endpoint_url: url,
    force_path_style: z.boolean().default(false),
    access_key_id: name
      .max(16_384)
      .refine((id) => id.length <= MAX_KEY_ID, `must have at most ${MAX_KEY_ID} characters`)
      .meta({ examples: ['AKIAIOSFODNN7EXAMPLE'] }),
    secret_access_key: secret.meta({ examples: ['wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'] }),
    ca_pem: pem,
    storage_class: token.max(64).nullable().default(null),
    sse: z.enum(ENCRYPTIONS).meta({ id: 'S3Encryption' }).nullable().default(null),
    sse_kms_key_id: token.max(2048).nullable().default(null),
    via: viaProxy,
  },
  signIns: {
    access_key: {
      label: 'Access key',
      secrets: {
        access_key_id: { label: 'Access key id' },
        secret_access_key: { label: 'Secret access key', kind: 'secret' },
      },
    },
  },
  form: {
    server: {
      bucket: { label: 'Bucket' },
      prefix: PREFIX_FIELD,
      region: { label: 'Region', initial: REGION },
      endpoint_url: {
        label: 'Service URL',
        placeholder: 'https://s3.example.com',
        hint: 'Leave empty to use the Amazon S3 URL of the region',
      },
    },
    options: {
      force_path_style: {
        label: 'The bucket is in the path, not in the host name',
        kind: 'yes-no',
      },
      storage_class: { label: 'Storage class', placeholder: 'STANDARD' },
      sse: { label: 'Encryption at rest', kind: ['', ...ENCRYPTIONS] },
      sse_kms_key_id: { label: 'KMS key id', hint: 'For encryption with aws:kms' },
      ca_pem: CA_FIELD,
    },
  },
  filesPerConnection: 8,
  via: PROXIES,
  address: '{bucket}/{prefix}',
  host: ({ bucket, region, endpoint_url }) =>
    endpoint_url === null ? `${bucket}.s3.${region}.amazonaws.com` : new URL(endpoint_url).hostname,
  audience: ({ endpoint_url }) => String(endpoint_url),
  locate: ({ authority, path }, { bucket }) => (authority === bucket.toLowerCase() ? path : null),
});

export type S3Settings = SettingsOf<'s3', typeof s3.fields, typeof s3.signIns>;
export type S3Credentials = CredentialsOf<typeof s3.signIns>;
