import { connect } from 'node:net';

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** Sends these very bytes over a connection of its own and reads until the server closes it. */
export async function sendRaw(port: number, ...chunks: (string | Buffer)[]): Promise<RawAnswer> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  for (const chunk of chunks) socket.write(chunk);
  let text = '';
  try {
    for await (const data of socket) text += data;
  } catch {
    // The server may reset the connection when it has answered.
  }
  const [head = '', ...body] = text.split('\r\n\r\n');
  const [first = '', ...lines] = head.split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  return { status: Number(first.split(' ')[1]), headers, body: body.join('\r\n\r\n') };
}
