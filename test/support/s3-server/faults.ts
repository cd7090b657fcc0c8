import type { S3ErrorCode } from './errors.ts';
import type { Operation } from './operations.ts';

/** What goes wrong with the next `times` requests (1 unless told) of an operation. */
export type Fault = { operation: Operation; times?: number } & (
  | { kind: 'error'; code: S3ErrorCode }
  /** CompleteMultipartUpload only: nothing is done, and the error comes with status 200. */
  | { kind: 'error-in-success'; code: S3ErrorCode }
  /** Resets the connection after so many bytes: of the request's body, or of the answer's where the operation reads. */
  | { kind: 'cut'; afterBytes: number }
  | { kind: 'slow'; delayMs: number }
  /** All is done, and the connection reset in place of an answer. */
  | { kind: 'lose-answer' }
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
      const fault = planned.find((candidate) => candidate.operation === operation && candidate.times > 0);
      if (fault) fault.times--;
      return fault;
    },
    clear() {
      planned.length = 0;
    },
  };
}
