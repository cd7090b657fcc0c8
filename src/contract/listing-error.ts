import { z } from 'zod';

/** Why a folder of a flow or a batch could not be listed. */
export const listingError = z
  .strictObject({
    code: z.string().meta({ examples: ['permission_denied'] }),
    message: z.string().meta({ examples: ['/out: permission denied'] }),
    folder: z
      .string()
      .describe('The folder that could not be listed, below the folder of the flow or the batch.')
      .meta({ examples: ['2026/'] }),
  })
  .meta({ id: 'ListingError' });
