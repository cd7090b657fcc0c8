import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startAzurite } from '../support/file-servers/azure/azurite.ts';
import {
  azureEndpoint,
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
  sha256At,
  type TestEndpoint,
  uriOf,
  whyNotAll,
} from '../support/file-servers/endpoints.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../support/service/installation.ts';
import { type SpawnedService, spawnService } from '../support/service/roles.ts';
import { untilCleanedUp, untilEnded } from '../support/service/transfers.ts';

const MiB = 1 << 20;
const GiB = 2 ** 30;
const MEMORY_MIB = 400;

describeWithPostgres('big files between every two protocols', () => {
  let installation: TestInstallation;
  let service: SpawnedService;
  const endpoints = new Map<EndpointName, TestEndpoint>();

  beforeEach(async () => {
    installation = await openTestInstallation();
    service = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });
  });
  afterEach(async () => {
    await service?.kill();
    await Promise.all([
      installation?.close(),
      ...[...endpoints.values()].map((endpoint) => endpoint.stop()),
    ]);
    endpoints.clear();
  });

  const endpointOf = (name: EndpointName) => endpoints.get(name) as TestEndpoint;

  async function start(
    name: EndpointName,
    starting: Promise<TestEndpoint> = ENDPOINT_KINDS[name].start(),
  ): Promise<void> {
    const endpoint = await starting;
    endpoints.set(name, endpoint);
    await configureEndpoint(installation, { ...endpoint.request, name });
  }

  /** The service's peak memory so far, in MiB. */
  function peakMemory(): number {
    const [, kibibytes] =
      /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8')) ?? [];
    return Number(kibibytes) / 1024;
  }

  async function expectMoved(
    from: EndpointName,
    source: string,
    to: EndpointName,
    destination: string,
    sha256: string | null,
  ) {
    const id = await submit(installation, uriOf(from, source), uriOf(to, destination));
    const done = await untilEnded(installation, id);
    const route = `${from} to ${to}`;
    expect(done, route).toMatchObject({
      status: 'completed',
      checksum_sha256: sha256,
      facts: { retry_count: 0 },
    });
    expect(await sha256At(endpointOf(to), destination), route).toBe(sha256);
    await untilCleanedUp(installation);
    expect(await endpointOf(to).names(dirname(destination)), route).toEqual([destination]);
    expect(peakMemory(), route).toBeLessThan(MEMORY_MIB);
  }

  for (const to of ENDPOINT_NAMES) {
    const reason = whyNotAll([to]);
    const title = `300 MiB arrive at ${to} from each, and each file replaces the previous one`;
    test.skipIf(reason)(reason ? `${title} (skipped: ${reason})` : title, async () => {
      const available = ENDPOINT_NAMES.filter((name) => !whyNotAll([name]));
      const content = randomBytes(300 * MiB);
      for (const name of available) {
        await start(name);
        await endpointOf(name).put('source/file', content);
      }
      const sha256 = await sha256At(endpointOf(to), 'source/file');
      await endpointOf(to).put('destination/file', Buffer.from('the one before'));
      for (const from of available) {
        const before = await endpointOf(to).stamp('destination/file');
        await expectMoved(from, 'source/file', to, 'destination/file', sha256);
        expect(await endpointOf(to).stamp('destination/file')).not.toBe(before);
      }
    });
  }

  const ROUND = ['sftp', 's3-strict', 'azure', 'ftps', 'sftp'] as const;
  const reason = whyNotAll(ROUND);
  const title = `files just over 5 GiB arrive: ${ROUND.join(' to ')}`;
  test.skipIf(reason)(reason ? `${title} (skipped: ${reason})` : title, async () => {
    const [first] = ROUND;
    for (const name of new Set(ROUND)) {
      // On disk, not in its default place, which is memory.
      await start(
        name,
        name === 'azure' ? startAzurite({ onDisk: true }).then(azureEndpoint) : undefined,
      );
    }
    const source = 'round 0/file';
    await writeSparse(join(endpointOf(first).root as string, source), 5 * GiB + 12_345);
    const sha256 = await sha256At(endpointOf(first), source);
    for (const [round, from] of ROUND.slice(0, -1).entries()) {
      await expectMoved(
        from,
        `round ${round}/file`,
        ROUND[round + 1] as EndpointName,
        `round ${round + 1}/file`,
        sha256,
      );
    }
  });
});

/** Writes a file of zeros with random bytes at its start, across 4 GiB and at its end. */
async function writeSparse(file: string, size: number): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  const handle = await open(file, 'w');
  for (const at of [0, 4 * GiB - MiB / 2, size - MiB])
    await handle.write(randomBytes(MiB), 0, MiB, at);
  await handle.close();
}
