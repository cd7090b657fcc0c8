import type { CopyObjectCommand, DeleteObjectCommand, UploadPartCommand } from '@aws-sdk/client-s3';

/** Sets headers of a request after the SDK has set its own, and before it signs them. */
export function setHeaders(
  command: CopyObjectCommand | DeleteObjectCommand | UploadPartCommand,
  given: Record<string, string>,
): void {
  const stack = command.middlewareStack as UploadPartCommand['middlewareStack'];
  stack.add(
    (next) => (args) => {
      Object.assign((args.request as { headers: Record<string, string> }).headers, given);
      return next(args);
    },
    { step: 'build', priority: 'low', name: 'givenHeaders' },
  );
}
