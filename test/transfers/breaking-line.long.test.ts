import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type ProxiedEndpoint, startBehindProxy } from '../support/file-servers/behind-proxy.ts';
import { sha256At, uriOf, whyNotAll } from '../support/file-servers/endpoints.ts';
import { configureEndpoint, submit, untilStatus } from '../support/service/installation.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;
const SIZE = 10 * MiB;
/** Less than a chunk. */
const LIFETIME = 3 * MiB;
const OTHERS = ['ftps', 'azure', 's3-strict'] as const;

await describeTransfers('a line whose connections end before a chunk is through', () => {
  const pair = useSftpPair({ WAYBILL_TRANSFER_RETRY_DELAYS: '100ms,200ms,300ms' });
  const others = new Map<string, ProxiedEndpoint>();

  beforeAll(async () => {
    for (const name of OTHERS.filter((other) => !whyNotAll([other]))) {
      const endpoint = await startBehindProxy(name);
      others.set(name, endpoint);
      endpoint.proxy.cutEach(LIFETIME);
      await configureEndpoint(pair.installation, { name, ...endpoint.request });
    }
  });
  afterAll(async () => {
    for (const endpoint of others.values()) await endpoint.stop();
  });

  for (const side of ['source', 'destination'] as const)
    test(`a file arrives: SFTP ${side}`, async () => {
      const name = `breaking-${side}`;
      pair.create(name, SIZE);
      pair[side].cutEach(LIFETIME);
      await pair.expectArrived(await pair.submitted(name), name);
    });

  for (const name of ['ftps', 'azure'] as const) {
    const reason = whyNotAll([name]);
    const skipped = reason ? ` (skipped: ${reason})` : '';
    test.skipIf(reason)(`a file arrives: ${name} destination${skipped}`, async () => {
      const sha256 = createHash('sha256')
        .update(readFileSync(pair.create(name, SIZE)))
        .digest('hex');
      const id = await submit(pair.installation, `sftp://alpha/${name}`, uriOf(name, name));
      const ended = await untilStatus(pair.installation, id, ['completed', 'failed']);
      expect(ended).toMatchObject({ status: 'completed', checksum_sha256: sha256 });
      expect(await sha256At(others.get(name) as ProxiedEndpoint, name)).toBe(sha256);
    });
  }

  test('a transfer to S3, whose parts have a smallest size, says why it fails', async () => {
    pair.create('to-s3', SIZE);
    const id = await submit(pair.installation, 'sftp://alpha/to-s3', uriOf('s3-strict', 'to-s3'));
    const { error } = (await untilStatus(pair.installation, id, 'failed')).facts;
    expect(error).toMatchObject({ code: 'connection_failed', phase: 'write' });
    expect(error?.message).toMatch(
      /Each of the last 4 connections broke before a piece of 8 MiB was through/,
    );
  });
});
