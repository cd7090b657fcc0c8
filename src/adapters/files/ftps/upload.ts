import type { Connection } from './connection.ts';
import type { DataConnectionOptions } from './data-connection.ts';

/** An upload that is under way. */
export interface Upload {
  /**
   * Resolves when the system has taken all data. FTP acknowledges nothing before the end. `sent` is
   * called with the bytes of each slice that the system has taken.
   */
  write(data: Uint8Array, sent: (bytes: number) => void): Promise<void>;
  /**
   * Ends the file and waits until the server confirms that it has all of it. `stalls` multiplies
   * the time that this may take.
   */
  finish(stalls: number): Promise<void>;
}

// Small enough that a slow line sends one slice within the stall timeout.
const SLICE = 256 << 10;

/** Starts an upload. `commands` are STOR or APPE, with a REST before it if it resumes. */
export async function startUpload(
  connection: Connection,
  commands: string[],
  objection?: DataConnectionOptions['objection'],
): Promise<Upload> {
  const { socket, ended, broken } = await connection.openDataConnection(commands, { objection });
  socket.resume();

  function send(slice: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      socket.write(slice, (error) => (error ? reject(error) : resolve()));
    });
  }

  return {
    async write(data, sent) {
      try {
        // A socket's own timeout gives a write that has begun up to twice the time.
        for (let start = 0; start < data.length; start += SLICE) {
          const slice = data.subarray(start, start + SLICE);
          await connection.inTime(send(slice));
          sent(slice.length);
        }
      } catch {
        // The server gives the reason for a broken data connection on the control connection.
        await connection.inTime(Promise.race([ended, broken]));
        throw new Error('the server closed the connection before it had the whole file');
      }
    },
    async finish(stalls) {
      socket.end();
      await connection.inStalls(ended, stalls);
    },
  };
}
