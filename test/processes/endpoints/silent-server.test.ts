import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openFileEndpoint } from '../../../src/adapters/files/open.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { TRANSFER_ERRORS } from '../../../src/domain/transfers/errors.ts';
import { testEndpoint } from '../../../src/processes/endpoints/endpoint-test.ts';
import { accessOf } from '../../../src/processes/endpoints/open-endpoint.ts';

const sockets: Socket[] = [];
let server: Server;
let port: number;
beforeAll(async () => {
  server = createServer((socket) => sockets.push(socket.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server.close();
});

const host = '127.0.0.1';
const requests = (): Record<string, object> => ({
  sftp: { host, port, username: 'waybill', password: 'secret' },
  ftps: { host, port, username: 'waybill', password: 'secret' },
  s3: {
    bucket: 'archive',
    endpoint_url: `http://${host}:${port}`,
    access_key_id: 'id',
    secret_access_key: 'secret',
  },
  azure: {
    account: 'archive',
    container: 'archive',
    endpoint_url: `http://${host}:${port}/archive`,
    account_key: Buffer.alloc(32).toString('base64'),
  },
});

test.each([
  ['sftp', 'connect'],
  ['ftps', 'connect'],
  ['s3', 'sign_in'],
  ['azure', 'sign_in'],
])(
  'the test of a silent %s server fails in the step that gets no answer',
  async (protocol, step) => {
    const { definition, credentials } = accessOf(
      endpointRequest.parse({ name: 'silent', protocol, ...requests()[protocol] }),
    );
    const endpoint = await openFileEndpoint(definition, credentials);
    const tested = { settings: definition.settings, endpoint };
    const { ok, steps } = await testEndpoint(tested, () => undefined, { limitMs: 200 });
    expect(ok).toBe(false);
    expect(steps.slice(0, -1).every((passed) => passed.ok)).toBe(true);
    expect(steps.at(-1)).toMatchObject({
      ...{ step, ok: false, code: 'timeout' },
      message: expect.stringContaining('o answer within'),
      advice: TRANSFER_ERRORS.timeout.advice,
    });
  },
);
