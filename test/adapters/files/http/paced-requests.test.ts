import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { pacedDestination, paceOf } from '../../../../src/adapters/files/threads/paced-files.ts';
import { createPacer } from '../../../../src/concurrency/pacer.ts';
import { endpointOn as azureOn } from '../azure/endpoint-on.ts';
import { options, whole } from '../contract.ts';
import { endpointOn as s3On } from '../s3/endpoint-on.ts';

const FILES = 8;
const content = Buffer.alloc(6_144, 'a');
const STORED = { etag: `"${createHash('md5').update(content).digest('hex')}"` };
/** Eight files take six seconds at this rate, each alone takes less than one. */
const RATE = 8_192;
/** As the servers of S3 and Azure end requests, and more quickly. */
const REQUEST_LIMIT_MS = 2_500;

/** Starts a server that ends requests whose bodies take too long. */
async function startServer(): Promise<{ url: string; puts: IncomingMessage[] }> {
  const puts: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    puts.push(request);
    const limit = setTimeout(() => request.socket.destroy(), REQUEST_LIMIT_MS);
    request
      .on('error', () => undefined)
      .on('close', () => clearTimeout(limit))
      .on('end', () => response.writeHead(request.url?.includes('azure') ? 201 : 200, STORED).end())
      .resume();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, puts };
}

const ON: Record<string, (url: string) => FileEndpoint> = {
  S3: (endpointUrl) =>
    s3On({ endpointUrl, accessKeyId: 'id', secretAccessKey: 'secret', region: 'us-east-1' }),
  Azure: (url) =>
    azureOn({ endpointUrl: `${url}/azure`, account: 'azure', accountKey: 'a2V5' } as never, {
      maxConnections: FILES,
    }),
};

test.each(Object.keys(ON))('small files at a low limit do not end each other on %s', async (on) => {
  const { url, puts } = await startServer();
  const endpoint = ON[on]?.(url) as FileEndpoint;
  onTestFinished(() => endpoint.close());
  const pacer = createPacer();
  pacer.setRate(RATE);

  async function send(path: string): Promise<void> {
    const { signal } = new AbortController();
    const pace = paceOf(pacer, signal);
    const opened = await endpoint.openDestination(path, { ...options(content.length), pace });
    const file = pacedDestination(opened, pace);
    await file.write(0, content);
    await file.commit(whole(content));
    await file.close();
  }

  await Promise.all(Array.from({ length: FILES }, (_, index) => send(`/${index}`)));
  expect(puts.filter(({ method }) => method === 'PUT')).toHaveLength(FILES);
});
