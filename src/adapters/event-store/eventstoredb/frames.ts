/*
 * The frames of gRPC: each message follows a byte that says whether it is compressed, and its
 * length in four bytes.
 */

const HEADER_BYTES = 5;

export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(HEADER_BYTES + message.length);
  framed.writeUInt8(0, 0);
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, HEADER_BYTES);
  return framed;
}

/** Returns the function that takes the chunks of a stream. It passes on the messages in them. */
export function createFrameReader(receive: (message: Buffer) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = [];
  let bytes = 0;
  let needed = HEADER_BYTES;

  return (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes < needed) return;
    const data = chunks.length === 1 ? chunk : Buffer.concat(chunks);
    let at = 0;
    for (;;) {
      const left = data.length - at;
      needed = left < HEADER_BYTES ? HEADER_BYTES : HEADER_BYTES + data.readUInt32BE(at + 1);
      if (left < needed) break;
      if (data[at] !== 0) throw new Error('The event store compresses its answers');
      receive(data.subarray(at + HEADER_BYTES, at + needed));
      at += needed;
    }
    bytes = data.length - at;
    chunks = bytes === 0 ? [] : [data.subarray(at)];
  };
}
