import { z } from 'zod';

const expectedSha256 = z
  .string()
  .regex(/^[0-9A-Fa-f]{64}$/, 'must be a SHA-256 in hex: 64 digits')
  .toLowerCase()
  .optional()
  .describe(
    'SHA-256 that the file must have, in hex. Another one fails the transfer with ' +
      '`checksum_mismatch`, before the file gets its name.',
  )
  .meta({ examples: ['df6974f957e17f48cac79074b3f428baefd3a7029772cbc3f4ded5451fa2ee1d'] });

/** The options of a transfer: in its request, in an item of a batch, and in its detail. */
export const transferOptions = { expected_sha256: expectedSha256 };
