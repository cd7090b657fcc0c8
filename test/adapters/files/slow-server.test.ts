import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createAzureEndpoint } from '../../../src/adapters/files/azure/endpoint.ts';
import { createFtpsEndpoint } from '../../../src/adapters/files/ftps/endpoint.ts';
import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { createS3Endpoint } from '../../../src/adapters/files/s3/endpoint.ts';
import { createSftpEndpoint } from '../../../src/adapters/files/sftp/endpoint.ts';
import { createSharedCounter } from '../../../src/concurrency/shared-counter.ts';
import { credentialsOf, definitionOf } from '../../../src/contract/endpoints/definition.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { type ProxiedEndpoint, startBehindProxy } from '../../support/file-servers/behind-proxy.ts';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
} from '../../support/file-servers/endpoints.ts';
import { LONG, longUnless } from '../../support/run/long.ts';
import { options, upload } from './contract.ts';

vi.setConfig({ testTimeout: 90_000 });

const KiB = 1 << 10;
const MiB = 1 << 20;
const never = new AbortController().signal;
/** Not one byte is late by that. */
const STALL_MS = 20_000;

const ADAPTERS = {
  sftp: createSftpEndpoint,
  ftps: createFtpsEndpoint,
  s3: createS3Endpoint,
  azure: createAzureEndpoint,
} as const;

/** Opens an endpoint as the mover does, and returns its remote paths too. */
function open({ request }: ProxiedEndpoint, slowMs: number) {
  const parsed = endpointRequest.parse({ ...request, name: 'slow' });
  const { settings } = definitionOf(parsed);
  const create = ADAPTERS[settings.protocol] as (options: unknown) => FileEndpoint;
  const endpoint = create({
    settings,
    credentials: credentialsOf(parsed).credentials,
    maxConnections: 4,
    timeouts: { stallMs: STALL_MS, slowMs },
  });
  const path = (name: string) =>
    'base_path' in settings ? join(settings.base_path, name) : `${settings.prefix}${name}`;
  return { endpoint, path };
}

describe.each(ENDPOINT_NAMES)('a slow server of %s', (name: EndpointName) => {
  const { whyNot, protocol } = ENDPOINT_KINDS[name];
  let server: ProxiedEndpoint;
  beforeAll(async () => {
    if (whyNot === null) server = await startBehindProxy(name);
  });
  afterAll(() => server?.stop());
  beforeEach(() => server?.proxy.throttle(Number.POSITIVE_INFINITY));

  async function using(
    slowMs: number,
    work: (endpoint: FileEndpoint, path: (name: string) => string) => Promise<void>,
  ): Promise<void> {
    const { endpoint, path } = open(server, slowMs);
    await work(endpoint, path).finally(() => endpoint.close());
  }

  const stalled = {
    code: 'stalled',
    step: 'transfer',
    message: expect.stringContaining('less than 64 KiB went in or out in 1 s'),
  };

  test.skipIf(whyNot)('that sends a file by single bytes has stalled', LONG, () =>
    using(1_000, async (endpoint, path) => {
      await server.put('trickle', randomBytes(8 * MiB));
      const file = await endpoint.openSource(path('trickle'), never);
      const { proxy } = server;
      const before = proxy.forwarded.down;
      proxy.throttle(MiB);
      const reading = file.read(0, new Uint8Array(8 * MiB));
      // The data connection of FTPS begins with a handshake.
      void vi
        .waitFor(() => expect(proxy.forwarded.down - before).toBeGreaterThan(64 * KiB), 60_000)
        .then(() => proxy.throttle(50));
      await expect(reading).rejects.toMatchObject(stalled);
      await file.close();
    }),
  );

  // FTPS sends 256 KiB within the stall time, or the server has stalled.
  test.skipIf(whyNot || protocol === 'ftps')('that takes a file by single bytes has stalled', () =>
    using(1_000, async (endpoint, path) => {
      const size = 64 * MiB;
      const file = await endpoint.openDestination(path('taken'), {
        ...options(size),
        acknowledged: createSharedCounter(),
      });
      server.proxy.throttle(50);
      const content = randomBytes(file.chunkSize);
      // The system takes the first chunks.
      const writing = Promise.all(
        [0, 1, 2, 3, 4].map((chunk) => file.write(chunk * file.chunkSize, content)),
      );
      await expect(writing).rejects.toMatchObject(stalled);
      await file.close();
    }),
  );

  // These servers close a connection that the proxy still forwards.
  const hangsUp = name === 's3-strict' || name === 'azure';
  test.skipIf(whyNot || hangsUp)(
    'moves files all the same, however long they take',
    longUnless(name === 'sftp'),
    () =>
      using(4_000, async (endpoint, path) => {
        const content = randomBytes(MiB + 1);
        server.proxy.throttle(160 * KiB);
        await upload(endpoint, path('slow'), content);
        const file = await endpoint.openSource(path('slow'), never);
        const target = new Uint8Array(content.length);
        await file.read(0, target);
        expect(content.equals(target)).toBe(true);
        await file.close();
      }),
  );
});
