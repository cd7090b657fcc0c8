import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  createWebhookSender,
  type SenderOptions,
  type SendOutcome,
} from '../../../src/adapters/webhooks/send.ts';
import { createCertificates, type TestCertificates } from '../../support/network/certificates.ts';
import { freePort } from '../../support/network/free-port.ts';
import { until } from '../../support/service/transfers.ts';
import {
  type ReceiverOptions,
  startWebhookReceiver,
  type WebhookReceiver,
} from '../../support/webhooks/receiver.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

async function receiver(options?: ReceiverOptions): Promise<WebhookReceiver> {
  const started = await startWebhookReceiver(options);
  undo.push(() => started.close());
  return started;
}

function sender(options: Partial<SenderOptions> = {}) {
  const created = createWebhookSender({ allowedCidrs: ['127.0.0.0/8'], ...options });
  undo.push(() => created.close());
  return (url: string, body = '{"id":"evt_1"}'): Promise<SendOutcome> =>
    created.send({ url, headers: { 'X-Service-Signature': 'aa' }, body });
}

it('goes to the new address of a name while the old receiver still answers', async () => {
  const blue = await receiver();
  const reached: string[] = [];
  const green = createHttpServer((request, response) => {
    request.resume().on('end', () => response.end());
    reached.push(request.url ?? '');
  });
  await new Promise<void>((resolve) => green.listen(blue.port, '127.0.0.2', resolve));
  undo.push(async () => green.close());
  let address = '127.0.0.1';
  const send = sender({ resolve: async () => [{ address, family: 4 }], renewAfterMs: 50 });
  const url = `http://receiver.test:${blue.port}/hook`;
  // One connection may not be free yet when the next request begins.
  await Promise.all([send(url), send(url)]);
  expect(blue.connections()).toBe(2);

  address = '127.0.0.2';
  await until('a delivery at the new address', async () => {
    expect(await send(url)).toMatchObject({ type: 'delivered', statusCode: 200 });
    return reached.length > 0;
  });
});

describe('an answer', () => {
  it.each([200, 201, 204, 299])('%i means delivered', async (status) => {
    const { url, received } = await receiver({ behaviour: status });
    expect(await sender()(`${url}?a=b%20c`)).toMatchObject({
      type: 'delivered',
      statusCode: status,
    });
    expect(received).toMatchObject([
      {
        method: 'POST',
        path: '/hook?a=b%20c',
        body: '{"id":"evt_1"}',
        headers: { 'x-service-signature': 'aa' },
      },
    ]);
  });

  it.each([400, 404, 410, 500, 503])(
    "%i means rejected, with the answer's body",
    async (status) => {
      const { url } = await receiver({ behaviour: status });
      const outcome = await sender()(url);
      expect(outcome).toMatchObject({
        type: 'refused',
        statusCode: status,
        responseBody: `said ${status}`,
      });
    },
  );

  it.each([301, 302, 307, 308])('%i is not followed', async (status) => {
    const { url, received } = await receiver({ behaviour: status });
    const outcome = await sender()(url);
    expect(outcome).toMatchObject({
      type: 'refused',
      statusCode: status,
      error: expect.stringContaining('https://elsewhere.example/'),
    });
    expect(received).toHaveLength(1);
  });

  it('whose body never ends means delivered', async () => {
    const { url } = await receiver({ behaviour: 'slow_body' });
    const outcome = await sender()(url);
    expect(outcome).toMatchObject({ type: 'delivered', statusCode: 200 });
  });

  it('with a huge body means delivered, and its first 4 KiB are kept', async () => {
    const { url } = await receiver({ behaviour: 'huge_body' });
    const outcome = await sender()(url);
    expect(outcome).toMatchObject({ type: 'delivered', responseBody: 'y'.repeat(4_096) });
  });

  it('keeps the connection for the next request', async () => {
    const { url, connections } = await receiver();
    const send = sender();
    for (let i = 0; i < 5; i++) await send(url);
    // A request that arrives before the previous one is cleaned up takes a second.
    expect(connections()).toBeLessThanOrEqual(2);
  });
});

describe('no answer', () => {
  it.each(['hang', 'slow_headers'] as const)(
    'from a receiver with %s ends at the time limit',
    async (behaviour) => {
      const { url, received } = await receiver({ behaviour });
      const outcome = await sender({ withinMs: 300 })(url);
      expect(outcome).toMatchObject({
        type: 'error',
        error: 'no answer within 0.3 s: answer first, then work',
      });
      expect(outcome.durationMs).toBeGreaterThanOrEqual(299);
      expect(received).toHaveLength(1);
    },
  );

  it('from a receiver without a handshake ends at the time limit', async () => {
    // It receives the first bytes of TLS and says nothing.
    const silent = createServer().listen(0, '127.0.0.1');
    undo.push(async () => silent.close());
    const port = await new Promise<number>((resolve) =>
      silent.once('listening', () => resolve((silent.address() as { port: number }).port)),
    );
    const outcome = await sender({ withinMs: 300 })(`https://127.0.0.1:${port}/`);
    expect(outcome).toMatchObject({
      type: 'error',
      error:
        `127.0.0.1:${port} can't be reached: check that the receiver runs and that no firewall ` +
        'blocks the connection',
    });
  });

  it('has its own message for each kind of failed connection', async () => {
    const { url, port } = await receiver({ behaviour: 'reset' });
    const send = sender();
    expect(await send(url)).toMatchObject({
      type: 'error',
      error:
        `127.0.0.1:${port} closed the connection without an answer: look for the cause in the ` +
        'log of the receiver',
    });
    const closed = await freePort();
    expect(await send(`http://127.0.0.1:${closed}/`)).toMatchObject({
      error:
        `nothing listens at 127.0.0.1:${closed}: check that the receiver runs, and the port in ` +
        'the URL',
    });
    expect(await send(`https://127.0.0.1:${port}/`)).toMatchObject({
      error: expect.stringContaining('does not speak TLS'),
    });
    const unknown = sender({
      resolve: () =>
        Promise.reject(Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' })),
    });
    expect(await unknown('https://hooks.example/')).toMatchObject({
      error: expect.stringMatching(/^hooks\.example has no address that webhooks may reach: /),
    });
  });

  it('throws when the sender is closed', async () => {
    const { url, received } = await receiver({ behaviour: 'hang' });
    const created = createWebhookSender({ allowedCidrs: ['127.0.0.0/8'] });
    const sending = created.send({ url, headers: {}, body: '{}' });
    const thrown = expect(sending).rejects.toThrow('the sender was closed');
    await until('it is under way', () => received.length === 1);
    await created.close();
    await thrown;
  });
});

describe('TLS', () => {
  let certificates: TestCertificates;
  const usual = getCACertificates('default');
  beforeAll(async () => {
    certificates = await createCertificates();
    setDefaultCACertificates([...usual, certificates.caPem]);
  });
  // Other files of this worker expect that the authority is unknown.
  afterAll(() => setDefaultCACertificates(usual));

  it('uses the host name that was dialled', async () => {
    const { port, received } = await receiver({ certificate: certificates.valid });
    const send = sender({ resolve: async () => [{ address: '127.0.0.1', family: 4 }] });
    expect(await send(`https://localhost:${port}/hook`)).toMatchObject({ type: 'delivered' });
    expect(received[0]?.headers.host).toBe(`localhost:${port}`);
  });

  it.each([
    ['expired', 'has expired'],
    ['otherName', 'is for another name'],
    ['untrusted', 'is not signed by a known authority'],
  ] as const)('rejects a certificate that is %s', async (kind, reason) => {
    const { url, received } = await receiver({ certificate: certificates[kind] });
    expect(await sender()(url)).toMatchObject({
      type: 'error',
      error: expect.stringContaining(reason),
    });
    expect(received).toEqual([]);
  });
});

describe('a forbidden address', () => {
  it.each([
    'http://127.0.0.1',
    'https://127.0.0.1',
    'https://[::1]',
    'https://2130706433',
    'https://[::ffff:127.0.0.1]',
    'https://0x7f.1',
  ])('such as %s is not dialled', async (origin) => {
    const { port, connections } = await receiver();
    const outcome = await sender({ allowedCidrs: [] })(`${origin}:${port}/hook`);
    expect(outcome).toMatchObject({
      type: 'error',
      error: expect.stringContaining('WAYBILL_WEBHOOK_ALLOW_CIDRS'),
    });
    expect(connections()).toBe(0);
  });

  it('among the addresses of a name blocks the name', async () => {
    const { port, connections } = await receiver();
    const resolve = async () => [
      { address: '127.0.0.1', family: 4 },
      { address: '10.0.0.1', family: 4 },
    ];
    const outcome = await sender({ resolve })(`http://hooks.example:${port}/`);
    expect(outcome).toMatchObject({ type: 'error' });
    expect(connections()).toBe(0);
  });

  it('is known to the operator, and looks like an unknown name to the owner', async () => {
    const addresses: Record<string, string> = { 'private.example': '10.0.0.1' };
    const refused: unknown[] = [];
    const send = sender({
      onRefused: (host) => refused.push(host),
      resolve: async (hostname) => {
        const address = addresses[hostname];
        if (address) return [{ address, family: 4 }];
        throw Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' });
      },
    });
    for (const scheme of ['http', 'https']) {
      const [known, unknown] = await Promise.all(
        ['private', 'unknown'].map((name) => send(`${scheme}://${name}.example/`)),
      );
      const { error } = known as { error: string };
      expect(error).toMatch(/^private\.example has no address/);
      expect(unknown).toMatchObject({ error: error.replace('private', 'unknown') });
    }
    expect(refused).toEqual(Array(2).fill({ host: 'private.example', address: '10.0.0.1' }));
  });

  it('is detected when a name resolves differently for a second connection', async () => {
    const first = await receiver();
    const answers = ['127.0.0.1', '127.66.0.1'];
    let asked = 0;
    const resolve = async () => [{ address: answers[asked++] as string, family: 4 }];
    const send = sender({ allowedCidrs: ['127.0.0.1/32'], resolve });
    expect(await send(`http://hooks.example:${first.port}/`)).toMatchObject({ type: 'delivered' });
    await first.close();
    undo.length = 0;
    // It listens on every address of the machine, including the second one.
    const second = await receiver({ port: first.port });
    expect(await send(`http://hooks.example:${first.port}/`)).toMatchObject({
      error: expect.stringContaining('has no address that webhooks may reach'),
    });
    expect([second.connections(), asked]).toEqual([0, 2]);
  });

  it('includes every public address without TLS', async () => {
    const send = sender({ resolve: async () => [{ address: '8.8.8.8', family: 4 }] });
    expect(await send('http://hooks.example/')).toMatchObject({
      error: expect.stringContaining('use a public https address'),
    });
    expect(await send('http://8.8.8.8/')).toMatchObject({
      error: expect.stringContaining('use a public https address'),
    });
  });
});
