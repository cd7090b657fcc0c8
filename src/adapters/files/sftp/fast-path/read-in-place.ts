import type { Request, Sftp } from './inside.ts';

const DATA = 103;
const LENGTH_BYTES = 4;
/** Length, type, request, length of the data. */
const DATA_HEAD_BYTES = 13;

/** An answer to a read, of which more is to come. */
interface Answer {
  id: number;
  request: Request & { buffer: Buffer };
  filled: number;
  bytes: number;
}

/**
 * Copies what a read brings straight to where it is wanted, where ssh2 would gather the whole answer first.
 * All other messages are ssh2's, each in memory of its own.
 */
export function readInPlace(sftp: Sftp): void {
  const push = sftp.push.bind(sftp);
  let answer: Answer | null = null;

  /** Gives ssh2 the rest of a message, as far as it has come. */
  function handOn(data: Buffer, start: number): number {
    let missing = LENGTH_BYTES - sftp._pktLenBytes;
    if (sftp._pktLenBytes === 0 && data.length - start >= LENGTH_BYTES) missing += data.readUInt32BE(start);
    else if (sftp._pktLenBytes === LENGTH_BYTES) missing = sftp._pktLen - sftp._pktPos;
    // Nothing may follow what ssh2 has found to be no message.
    if (missing <= 0) return data.length;
    const end = Math.min(data.length, start + missing);
    push(Buffer.from(data.subarray(start, end)));
    return end;
  }

  /** The answer that begins here, where it is one whose request is known and which fits. */
  function answerAt(data: Buffer, start: number): Answer | null {
    if (data.length - start < DATA_HEAD_BYTES || data[start + LENGTH_BYTES] !== DATA) return null;
    const id = data.readUInt32BE(start + 5);
    const bytes = data.readUInt32BE(start + 9);
    const request = sftp._requests[id];
    const fits = bytes === data.readUInt32BE(start) - (DATA_HEAD_BYTES - LENGTH_BYTES) && bytes <= (request?.buffer?.length ?? -1);
    return fits ? { id, request: request as Answer['request'], filled: 0, bytes } : null;
  }

  function fill(current: Answer, data: Buffer, start: number): number {
    const end = Math.min(data.length, start + current.bytes - current.filled);
    current.request.buffer.set(data.subarray(start, end), current.filled);
    current.filled += end - start;
    if (current.filled < current.bytes) return end;
    answer = null;
    delete sftp._requests[current.id];
    current.request.cb?.(undefined, current.request.buffer, current.bytes);
    return end;
  }

  sftp.push = (data) => {
    if (data === null) return push(null);
    for (let start = 0; start < data.length; ) {
      if (!answer && sftp._pktLenBytes === 0) {
        answer = answerAt(data, start);
        if (answer) start += DATA_HEAD_BYTES;
      }
      start = answer ? fill(answer, data, start) : handOn(data, start);
    }
  };
}
