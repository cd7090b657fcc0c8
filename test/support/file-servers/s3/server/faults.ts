import type { S3ErrorCode } from './errors.ts';
import type { Operation } from './operations.ts';

/** A fault of the next `times` requests (default 1) of an operation. */
export type Fault = { operation: Operation; times?: number } & (
  | { kind: 'error'; code: S3ErrorCode }
  /** CompleteMultipartUpload only: does nothing, and returns the error with status 200. */
  | { kind: 'error-in-success'; code: S3ErrorCode }
  /** Does nothing, and answers as a proxy with a page of its own and status 200 does. */
  | { kind: 'page' }
  /**
   * Resets the connection after this many bytes of the request's body, or of the answer's if the
   * operation reads.
   */
  | { kind: 'cut'; afterBytes: number }
  | { kind: 'slow'; delayMs: number }
  /** Carries out the request, then resets the connection in place of an answer. */
  | { kind: 'lose-answer' }
  /**
   * CompleteMultipartUpload only: stores the object, keeps the upload, and resets the connection. A
   * gateway of Ceph 16 that crashes at that moment leaves this, and an abort of the upload
   * then deletes the data of the object.
   */
  | { kind: 'keep-upload' }
);

export interface Faults {
  add(fault: Fault): void;
  take(operation: Operation): Fault | undefined;
  clear(): void;
}

export function createFaults(): Faults {
  const planned: (Fault & { times: number })[] = [];
  return {
    add(fault) {
      planned.push({ times: 1, ...fault });
    },
    take(operation) {
      const fault = planned.find(
        (candidate) => candidate.operation === operation && candidate.times > 0,
      );
      if (fault) fault.times--;
      return fault;
    },
    clear() {
      planned.length = 0;
    },
  };
}
