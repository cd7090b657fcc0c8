import { z } from 'zod';
import type { CheckpointSigned } from '../domain/proof/signed-checkpoint.ts';
import { timestamp } from './instants.ts';
import { pageQuery, pagination, wholeNumber } from './pages.ts';

/** The longest `wait` for a receipt, in seconds: a checkpoint a minute, and the time to fold. */
const LONGEST_WAIT = 75;

const EXAMPLE_HASH = '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328';
const EXAMPLE_NOTE = `waybill/2f1c6a70-0d5e-4a3e-9a57-0f6f8f0a7c11
8
XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=

\u2014 waybill/2f1c6a70-0d5e-4a3e-9a57-0f6f8f0a7c11 x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
`;
const EXAMPLE_KEY = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGlzZBxQ8OExB6DDFvOEqqIF+xWSaqr8sMTiLNlbLXRM=
-----END PUBLIC KEY-----
`;

const keyId = z
  .string()
  .describe('Eight hex digits, which the signature lines of notes name too.')
  .meta({ examples: ['c74f20a3'] });
const publicKey = z
  .string()
  .describe('PEM.')
  .meta({ examples: [EXAMPLE_KEY] });
const note = z
  .string()
  .describe('The signed note: C2SP signed-note and tlog-checkpoint.')
  .meta({ examples: [EXAMPLE_NOTE] });
const hash = z
  .string()
  .describe('SHA-256 in lowercase hex.')
  .meta({ examples: [EXAMPLE_HASH] });
const path = z.array(hash).meta({ examples: [[EXAMPLE_HASH]] });
const size = z
  .int()
  .describe('Number of events that it covers.')
  .meta({ examples: [8] });

const signingKey = z
  .strictObject({
    key_id: keyId,
    public_key: publicKey,
    since: timestamp,
    until: timestamp.nullable().describe('When the next key followed.'),
    statement: z
      .string()
      .describe('A signed note that names the key: signed by the key, and by the key before it.')
      .meta({ examples: [EXAMPLE_NOTE] }),
    signed_by_previous: z
      .boolean()
      .nullable()
      .describe(
        'Whether the key before it signed the statement, as its signature proves. False if that was ' +
          'lost. Null for the first key.',
      ),
  })
  .meta({ id: 'LogSigningKey' });

export const signingKeyList = z
  .strictObject({
    origin: z
      .string()
      .describe('The name of the log: the first line of its checkpoints.')
      .meta({ examples: ['waybill/2f1c6a70-0d5e-4a3e-9a57-0f6f8f0a7c11'] }),
    data: z.array(signingKey).describe('Oldest first. The last one signs now.'),
  })
  .meta({ id: 'LogSigningKeyList' });
export type SigningKeyList = z.output<typeof signingKeyList>;

export const checkpoint = z
  .strictObject({ size, root_hash: hash, key_id: keyId, note, signed_at: timestamp })
  .meta({ id: 'LogCheckpoint' });
export type Checkpoint = z.output<typeof checkpoint>;

export const checkpointList = z
  .strictObject({ data: z.array(checkpoint).describe('Newest first.'), pagination })
  .meta({ id: 'LogCheckpointList' });
export type CheckpointList = z.output<typeof checkpointList>;

export const sinkList = z
  .strictObject({
    data: z
      .array(
        z
          .strictObject({
            url: z.string().meta({ examples: ['s3://archive/checkpoints/'] }),
            state: z
              .enum(['unknown', 'keeps', 'retries', 'refuses'])
              .meta({ id: 'LogCheckpointSinkState' })
              .describe(
                '`unknown`: not asked yet. `refuses`: it has a checkpoint that this log does not ' +
                  'have, so an older copy of the log was restored, or the log was changed.',
              ),
            size: z
              .int()
              .nullable()
              .describe('Number of events that the last checkpoint covers which it has taken.')
              .meta({ examples: [8] }),
            taken_at: timestamp.nullable(),
            error: z.string().nullable().describe('Why it did not take the last one.'),
            next_try_at: timestamp.nullable(),
          })
          .meta({ id: 'LogCheckpointSink' }),
      )
      .describe('The URL as `WAYBILL_CHECKPOINT_SINKS` has it.'),
  })
  .meta({ id: 'LogCheckpointSinkList' });
export type SinkList = z.output<typeof sinkList>;

export const checkpointQuery = z.strictObject(pageQuery);

export const checkpointParams = z.object({
  size: z
    .string()
    .describe('Number of events that it covers.')
    .meta({ examples: ['8'] }),
});

export const consistencyQuery = z.strictObject({
  from: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, 'must be a whole number above 0')
    .describe('The size of the older checkpoint.')
    .meta({ examples: ['6'] }),
});

export const consistency = z
  .strictObject({
    from: z.int().meta({ examples: [6] }),
    size,
    proof: path.describe('The consistency proof (RFC 6962, section 2.1.2).'),
  })
  .meta({ id: 'LogConsistency' });
export type Consistency = z.output<typeof consistency>;

const provenEvent = z
  .strictObject({
    index: z
      .int()
      .describe('Number of the leaf in the tree, from 0.')
      .meta({ examples: [5] }),
    leaf: z
      .string()
      .describe('The event and its place in its stream, in RFC 8785 form.')
      .meta({ examples: ['{"data":{},"id":"evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H"}'] }),
    proof: path.describe('The audit path (RFC 6962, section 2.1.1), from the leaf up.'),
  })
  .meta({ id: 'ProvenEvent' });

export const receipt = z
  .strictObject({
    version: z.literal(1),
    transfer_id: z.string().meta({ examples: ['txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    events: z.array(provenEvent).describe('Every event of the transfer, oldest first.'),
    checkpoint: note,
    public_key: publicKey,
  })
  .meta({ id: 'Receipt' });

export const receiptQuery = z.strictObject({
  wait: wholeNumber(0, LONGEST_WAIT, 0).describe(
    'Seconds to wait for the end of the transfer and the next checkpoint.',
  ),
});

/** Returns a checkpoint as the API shows it. */
export function toCheckpoint(signed: CheckpointSigned): Checkpoint {
  const { size, root_hash, key_id, note, signed_at } = signed;
  return { size, root_hash, key_id, note, signed_at };
}

/** The recorded state of a place that keeps checkpoints. */
type KnownSink = Omit<SinkList['data'][number], 'url' | 'state'> & { refuses: boolean };

/** Returns a place that keeps checkpoints as the API shows it. */
export function toSink(url: string, known: KnownSink | null): SinkList['data'][number] {
  if (known === null)
    return { url, state: 'unknown', size: null, taken_at: null, error: null, next_try_at: null };
  const { refuses, ...shown } = known;
  const failing = refuses ? 'refuses' : 'retries';
  return { url, state: known.error === null ? 'keeps' : failing, ...shown };
}
