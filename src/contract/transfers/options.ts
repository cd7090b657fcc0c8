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

const verify = z
  .enum(['read_back'])
  .meta({ id: 'VerifyMethod' })
  .optional()
  .describe(
    '`read_back`: reads the destination and compares its SHA-256 with that of the source: before ' +
      'the file gets its name, on S3 and Azure after it. The user must be able to read there.',
  );

const preserveMtime = z
  .boolean()
  .optional()
  .describe(
    'Gives the destination the modification time of the source: of the file by SFTP and FTPS, on ' +
      "S3 and Azure as metadata `mtime`, in rclone's form. `transfer.completed` says whether the " +
      'server did.',
  );

/** The options that all transfers of a batch can share. */
export const commonOptions = { verify, preserve_mtime: preserveMtime };

/** The options of a transfer: in its request, in an item of a batch, and in its detail. */
export const transferOptions = { expected_sha256: expectedSha256, ...commonOptions };
