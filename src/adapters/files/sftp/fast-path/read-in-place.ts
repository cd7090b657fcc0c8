import type { Request, Sftp } from './internals.ts';

const DATA = 103;
const LENGTH_BYTES = 4;
/** Length, type, request, length of the data. */
const DATA_HEAD_BYTES = 13;

/** An answer to a read whose data has not fully arrived. */
interface Answer {
  id: number;
  request: Request & { buffer: Buffer };
  filled: number;
  bytes: number;
}

/**
 * Copies the data of a read straight to its target. ssh2 would assemble the whole answer first.
 * ssh2 handles all other messages, each in memory of its own.
 */
export function readInPlace(sftp: Sftp): void {
  const push = sftp.push.bind(sftp);
  let answer: Answer | null = null;

  /** Passes the rest of a message to ssh2, as far as it has arrived. */
  function passOn(data: Buffer, start: number): number {
    let missing = LENGTH_BYTES - sftp._pktLenBytes;
    if (sftp._pktLenBytes === 0 && data.length - start >= LENGTH_BYTES)
      missing += data.readUInt32BE(start);
    else if (sftp._pktLenBytes === LENGTH_BYTES) missing = sftp._pktLen - sftp._pktPos;
    // ssh2 has found invalid data, so nothing that follows is a message.
    if (missing <= 0) return data.length;
    const end = Math.min(data.length, start + missing);
    push(Buffer.from(data.subarray(start, end)));
    return end;
  }

  /** Returns the answer that starts here, if its request is known and its data fits; else null. */
  function answerAt(data: Buffer, start: number): Answer | null {
    if (data.length - start < DATA_HEAD_BYTES || data[start + LENGTH_BYTES] !== DATA) return null;
    const id = data.readUInt32BE(start + 5);
    const bytes = data.readUInt32BE(start + 9);
    const request = sftp._requests[id];
    const fits =
      bytes === data.readUInt32BE(start) - (DATA_HEAD_BYTES - LENGTH_BYTES) &&
      bytes <= (request?.buffer?.length ?? -1);
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
      start = answer ? fill(answer, data, start) : passOn(data, start);
    }
  };
}
