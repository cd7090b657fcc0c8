import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

export interface RawConnection {
  port: number;
  /** The authority that signed the server's certificate; without it the connection is plain. */
  caPem?: string | undefined;
  /** Closes the client's sending side after the last chunk. */
  end?: boolean;
}

/** Sends exactly these bytes over a new connection, and reads until the server closes it. */
export async function sendRaw(port: number, ...chunks: (string | Buffer)[]): Promise<RawAnswer> {
  const [answer = { status: Number.NaN, headers: {}, body: '' }] = await exchange(
    { port },
    ...chunks,
  );
  return answer;
}

/** Like `sendRaw`, for several requests: returns every answer, in order. */
export async function exchange(
  { port, caPem, end = false }: RawConnection,
  ...chunks: (string | Buffer)[]
): Promise<RawAnswer[]> {
  const socket = caPem
    ? connectTls({ port, host: '127.0.0.1', ca: caPem })
    : connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  for (const chunk of chunks) socket.write(chunk);
  if (end) socket.end();
  const received: Buffer[] = [];
  try {
    for await (const data of socket) received.push(data);
  } catch {
    // The server may reset the connection after its answer.
  }
  return parseAnswers(Buffer.concat(received).toString('latin1'));
}

function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = text;
  while (rest !== '') {
    const headEnd = rest.includes('\r\n\r\n') ? rest.indexOf('\r\n\r\n') : rest.length;
    const [first = '', ...lines] = rest.slice(0, headEnd).split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    );
    const status = Number(first.split(' ')[1]);
    const hasBody = status >= 200 && status !== 204 && status !== 304;
    const length = hasBody ? Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) : 0;
    const body = rest.slice(headEnd + 4, headEnd + 4 + length);
    answers.push({ status, headers, body: Buffer.from(body, 'latin1').toString() });
    rest = rest.slice(headEnd + 4 + length);
  }
  return answers;
}
