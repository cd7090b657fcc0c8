import type { Socket } from 'node:net';

const MAX_BYTES = 16 << 10;

/**
 * Reads from a connection until `parse` finds a whole answer. Leaves the bytes after it in the
 * connection: the server behind a proxy may speak first. Rejects if the connection ends before.
 */
export function answered<Value>(
  socket: Socket,
  parse: (bytes: Buffer) => { used: number; value: Value } | null,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0);
    const settle = (done: () => void) => {
      socket.off('readable', read).off('error', fail).off('end', ended).off('close', ended);
      done();
    };
    const fail = (error: Error) => settle(() => reject(error));
    const ended = () => fail(new Error('it closed the connection'));

    function read(): void {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      bytes = Buffer.concat([bytes, chunk]);
      const answer = parse(bytes);
      if (answer === null) {
        if (bytes.length > MAX_BYTES) fail(new Error('its answer is too long'));
        return;
      }
      settle(() => {
        const rest = bytes.subarray(answer.used);
        if (rest.length > 0) socket.unshift(rest);
        resolve(answer.value);
      });
    }

    socket.on('readable', read).on('error', fail).on('end', ended).on('close', ended);
  });
}
