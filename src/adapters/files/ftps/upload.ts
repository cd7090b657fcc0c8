import type { Connection } from './connection.ts';

/** A file on its way to the server. */
export interface Upload {
  /** Resolves when the system has taken all of it: FTP acknowledges nothing before the end. */
  write(data: Uint8Array): Promise<void>;
  /** Ends the file and awaits the server's word that it has all of it. */
  finish(): Promise<void>;
}

// Small enough that a slow line takes one within the time of a stall.
const SLICE = 256 << 10;
// What the system still holds at the end of a file must get over a slow line first.
const STALLS_TO_FINISH = 5;

/** Starts an upload by STOR or APPE, which a REST may precede. */
export async function startUpload(connection: Connection, commands: string[]): Promise<Upload> {
  const { socket, ended, broken } = await connection.transfer(commands);
  socket.resume();

  function send(slice: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      socket.write(slice, (error) => (error ? reject(error) : resolve()));
    });
  }

  return {
    async write(data) {
      try {
        // A socket's own time-out allows a write that has begun to be taken twice as long.
        for (let start = 0; start < data.length; start += SLICE) await connection.inTime(send(data.subarray(start, start + SLICE)));
      } catch {
        // Why the data connection broke is the server's to tell.
        await connection.inTime(Promise.race([ended, broken]));
        throw new Error('the server ended the file before it had all of it');
      }
    },
    async finish() {
      socket.end();
      await connection.inTime(ended, STALLS_TO_FINISH * connection.stallMs);
    },
  };
}
